"""Worlds that move: what a change of a map shows, on the smallest city that tells right from wrong.

Half of 50,000 people go to one district of 64 cells. Of the 20 most changed cells in two series 32
or more of 40 intervals of 95 % hold: fewer happen less than once in a million, were cells
independent. A change shrunk to nothing, as the slope of a score within a smooth field is, fails.
"""

import numpy as np
import pytest

from tests.map_moves import Setting, draw_moves, one_series


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("mode", ["window", "2 symbols"])
def test_heavy_changes_keep_size_and_sign(mode: str) -> None:
    rng = np.random.default_rng(3)
    setting = Setting(mode, 8, 50_000, "district", 0.5)
    found = [one_series(setting, rng) for _ in range(2)]
    assert sum(one.covered for one in found) >= 32 / 20
    assert sum(one.wrong for one in found) == 0
    assert sum(one.right for one in found) * 2 >= sum(one.strong for one in found) > 0


def test_people_move_as_the_world_says() -> None:
    rng = np.random.default_rng(1)
    values = draw_moves(Setting("window", 8, 20_000, "district", 0.5), rng)
    counts = np.stack([np.bincount(week, minlength=65)[:64] for week in values.T])
    shares = counts / counts.sum(axis=1, keepdims=True)
    moved = np.abs(shares[5] - shares[0]).sum() / 2
    assert 0.3 < moved < 0.5
    assert np.abs(shares[2] - shares[0]).sum() / 2 < 0.05
    still = draw_moves(Setting("window", 8, 20_000, "none", 0.0), rng)
    assert np.mean(still[:, 0] == still[:, 5]) > 0.4


@pytest.mark.long
@pytest.mark.statistical
def test_drifts_have_no_wrong_sign_midway() -> None:
    """By pattern and sign alone 6 of the flags of these three series were wrong."""
    setting = Setting("window", 13, 100_000, "drift", 0.5)
    found = [one_series(setting, np.random.default_rng([seed, 77])) for seed in range(3)]
    assert sum(one.wrong for one in found) == 0
    assert sum(one.right for one in found) >= 0.9 * sum(one.strong for one in found)
