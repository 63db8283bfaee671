"""Changes of cells that are told of a series: which windows, and how often wrongly."""

import numpy as np
import pytest

from decoder.density.cell_changes import corrected_changes
from decoder.density.space_time_model import patterns
from decoder.typing import Floats

CELLS, SERIES = 50, 1_000


def p_adjusted(shares: Floats) -> Floats:
    """Of cells that were measured by themselves: shares (T, n), each with error 1."""
    tried = patterns(len(shares))
    weights = tried / tried.sum(axis=1, keepdims=True)
    weights -= (1 - tried) / (1 - tried).sum(axis=1, keepdims=True)
    sizes = weights @ shares
    errors = np.sqrt((weights**2).sum(axis=1, keepdims=True))
    return corrected_changes(tried, sizes, np.broadcast_to(errors, sizes.shape))


def test_windows_are_told_by_their_pattern() -> None:
    """One cell from the fourth week on, one in the second week alone, one in neither."""
    shares = np.zeros((6, CELLS))
    shares[3:, 0] = 8.0
    shares[1, 1] = -8.0
    found = p_adjusted(shares)
    assert np.flatnonzero((found <= 0.01).any(axis=0)).tolist() == [0, 1]
    assert (found[:, 1] <= 0.01).tolist() == [False, True, False, False, False, False]
    assert (found[3:, 0] <= 0.01).all()
    assert (found[:, 2:] == 1).all()


def test_a_step_tells_all_windows_above() -> None:
    """The last one is above the mean of the others, too, but below the rest of the step."""
    shares = np.zeros((8, CELLS))
    shares[5:, 0] = 20.0, 20.0, 12.0
    found = p_adjusted(shares)[:, 0]
    assert (found[:5] == 1).all()
    assert (found[5:] < 1e-6).all()


def test_two_windows_tell_the_later_one() -> None:
    shares = np.zeros((2, CELLS))
    shares[1, :2] = 6.0, -5.0
    found = p_adjusted(shares)
    assert (found[0] == 1).all()
    assert np.flatnonzero(found[1] < 0.05).tolist() == [0, 1]


@pytest.mark.parametrize("windows", [2, 3, 6])
def test_the_chance_of_any_change_is_alpha(windows: int) -> None:
    """1,000 series in which nothing changes; 4.5 standard errors above the level are allowed."""
    rng = np.random.default_rng(windows)
    least = [p_adjusted(rng.normal(size=(windows, CELLS))).min() for _ in range(SERIES)]
    for alpha in (0.01, 0.05, 0.2):
        wrong = np.mean(np.array(least) <= alpha)
        assert wrong < alpha + 4.5 * np.sqrt(alpha * (1 - alpha) / SERIES)
    assert np.mean(np.array(least) <= 0.2) > 0.08
