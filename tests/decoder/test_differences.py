"""Interval and test of a difference, whoever estimated it."""

import numpy as np
import pytest
from scipy.stats import norm, t

from decoder.comparison.differences import (
    corrected,
    differences,
    independent,
    margin,
    more_than,
    no_change,
    relative_changes,
)


def test_a_difference_has_the_error_of_both_windows() -> None:
    old = np.array([0.10, 0.2]), np.array([0.003, 0.004])
    new = np.array([0.12, 0.2]), np.array([0.004, 0.003])
    found = differences(*independent(old, new))
    assert found.difference == pytest.approx([0.02, 0.0])
    assert found.std_error == pytest.approx([0.005, 0.005])
    assert found.low[0] == pytest.approx(0.02 - 1.959964 * 0.005)
    assert found.p_value[0] == pytest.approx(2 * norm.sf(4))
    assert found.p_adjusted == pytest.approx([4 * norm.sf(4), 1.0])
    assert found.detected.tolist() == [True, False]


def test_few_degrees_of_freedom_widen_intervals_and_tests() -> None:
    change, error = np.array([0.03]), np.array([0.01])
    found = differences(change, error, level=0.9, freedom=5)
    assert found.high[0] == pytest.approx(0.03 + t.ppf(0.95, 5) * 0.01)
    assert found.p_value[0] == pytest.approx(2 * t.sf(3, 5))


def test_a_reserved_value_is_tested_by_itself() -> None:
    change, error = np.array([0.02, 0.5]), np.array([0.01, 0.01])
    alone = np.array([False, True])
    found = differences(change, error, apart=alone)
    assert found.detected.tolist() == [True, True]
    assert found.p_adjusted[0] == pytest.approx(found.p_value[0])
    together = corrected(no_change(np.array([0.02, 0.02]), error), "bonferroni")
    assert not together.detected.any()


def test_a_bound_is_part_of_the_hypothesis() -> None:
    change, error = np.array([0.03, -0.03, 0.001]), np.full(3, 0.01)
    assert more_than(0.01, change, error) == pytest.approx([2 * norm.sf(2)] * 2 + [1.0])
    assert no_change(change, np.array([0.0, np.nan, 0.01]))[:2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dependence", [-0.7, 0.0, 0.9])
def test_intervals_of_relative_changes_hold(dependence: float) -> None:
    """Of 20,000 draws at least 95 % hold the truth (false alarm below 1e-6: 4.8 standard errors);
    with the error of the base left out fewer do, so that the test can fail."""
    rng, draws = np.random.default_rng(3), 20_000
    change, base, error = 0.02, 0.05, 0.008
    both = rng.multivariate_normal([change, base], error**2 * np.array(
        [[1, dependence], [dependence, 1]]), draws)  # fmt: skip
    errors = np.full(draws, error)
    found = relative_changes((both[:, 0], errors), (both[:, 1], errors))
    truth, bound = change / base, 0.95 - 4.8 * np.sqrt(0.05 * 0.95 / draws)
    told = ~np.isnan(found.change)
    assert told.mean() > 0.99
    held = (found.low[told] <= truth) & (truth <= found.high[told])
    assert held.mean() >= bound
    half = margin(errors, 0.95) / both[:, 1]
    naive = np.abs(both[:, 0] / both[:, 1] - truth) <= half
    assert dependence > 0 or naive.mean() < bound


def test_shares_near_zero_have_no_per_cent() -> None:
    change, base = np.array([-0.03, -0.03, 0.01]), np.array([0.005, 0.05, 0.05])
    found = relative_changes((change, np.full(3, 0.002)), (base, np.full(3, 0.003)))
    assert np.isnan(found.change).tolist() == [True, False, False]
    assert np.isnan(found.low).tolist() == np.isnan(found.high).tolist() == [True, False, False]
    assert found.change[1] == pytest.approx(-0.6)
    assert found.low[2] < 0.2 < found.high[2]
    gone = relative_changes((np.array([-0.05]), np.array([0.01])), (base[1:2], np.array([0.003])))
    assert gone.low[0] == -1.0  # a share does not fall below zero
