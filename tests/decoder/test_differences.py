"""Interval and test of a difference, whoever estimated it."""

import numpy as np
import pytest
from scipy.stats import norm, t

from decoder.comparison.differences import (
    corrected,
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
