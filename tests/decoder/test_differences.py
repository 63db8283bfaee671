"""Interval and test of a difference, whoever estimated it."""

import numpy as np
import pytest
from scipy.stats import norm, t

from decoder.comparison.differences import (
    WindowChange,
    corrected,
    corrected_windows,
    decided,
    differences,
    independent,
    more_than,
    no_change,
)


def test_a_difference_has_the_error_of_both_windows() -> None:
    old = np.array([0.10, 0.2]), np.array([0.003, 0.004])
    new = np.array([0.12, 0.2]), np.array([0.004, 0.003])
    found = differences(*independent(old, new))
    assert found.difference == pytest.approx([0.02, 0.0])
    assert found.std_error == pytest.approx([0.005, 0.005])
    half = norm.isf(0.05 / 2 / 2) * 0.005  # one of two is detected
    assert found.low == pytest.approx([0.02 - half, -half])
    assert found.p_value[0] == pytest.approx(2 * norm.sf(4))
    assert found.p_adjusted == pytest.approx([4 * norm.sf(4), 1.0])
    assert found.detected.tolist() == [True, False]


def test_few_degrees_of_freedom_widen_intervals_and_tests() -> None:
    change, error = np.array([0.03]), np.array([0.01])
    found = differences(change, error, alpha=0.1, freedom=5)
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


def test_an_interval_agrees_with_the_decision() -> None:
    rng, error = np.random.default_rng(5), np.full(40, 0.01)
    for moved in (0, 1, 12):
        change = rng.normal(0, 0.01, 40) + 0.03 * (np.arange(40) < moved)
        rows = differences(change, error)
        found, separate = (
            corrected_windows([WindowChange(0, 1, ("",) * 20, rows.of(half)) for half in halves])
            for halves in (np.split(np.arange(40), 2), [np.arange(20)] * 2)
        )
        for one in (rows, *(pair.rows for pair in (*found, *separate))):
            assert (one.detected == ((one.low > 0) | (one.high < 0))).all()
        assert np.concatenate([pair.rows.low for pair in found]) == pytest.approx(rows.low)


def test_an_interval_reaches_0_where_another_rule_shows_no_change() -> None:
    rows = decided(differences(np.array([0.05, -0.05]), np.full(2, 0.01)), np.ones(2), 0.05)
    assert (rows.low[0], rows.high[1], rows.detected.any()) == (0, 0, False)
