"""Intervals cover what they say, and the truncated normal one does so after selection."""

import numpy as np
import pytest
from scipy.stats import norm

from decoder.inference.intervals import (
    bisect,
    plain_interval,
    selected_interval,
    widened_interval,
)
from decoder.model.null_distribution import NORMAL_TAIL, NullTail

SIZE = 20_000
NORMAL = 1.959964


def ends_of(estimates, errors, deviates, law=NORMAL_TAIL):
    """Ends of the interval at 95 %, with normal plain margins."""
    values = [np.asarray(x, dtype=float) for x in (estimates, errors, deviates)]
    plain = plain_interval(*values[:2], np.inf, 0.95)
    return plain, widened_interval(*values, law, np.inf, 0.95)


def test_plain_interval_is_symmetric_about_its_estimate():
    low, high = plain_interval(np.array([0.01, 0.99]), np.array([0.1, 0.1]), np.inf, 0.95)
    np.testing.assert_allclose(high - [0.01, 0.99], 0.1 * NORMAL, rtol=1e-6)
    np.testing.assert_allclose([0.01, 0.99] - low, 0.1 * NORMAL, rtol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_intervals_reach_0_where_tests_fail(sign):
    """Whatever the standard error says: here the estimates are 10 and 2.5 of them from 0."""
    deviates = sign * np.array([0.01, 1.0, 1.9, NORMAL - 1e-6, NORMAL + 1e-6, 2.1, 5.0])
    for error in (0.001, 0.004):
        size = len(deviates)
        _, (low, high) = ends_of(np.full(size, sign * 0.01), np.full(size, error), deviates)
        near_0 = low if sign > 0 else -high
        assert (near_0[:4] <= 1e-7).all()
        assert (near_0[4:] >= -1e-7).all()
        assert (np.diff(near_0) >= 0).all()  # rises with the evidence, without a jump
        assert near_0[4] < 1e-5


def test_intervals_far_from_0_are_plain():
    """A heavy value's test is weaker than its estimate: without it all of its share is unlisted."""
    plain, (low, high) = ends_of([0.23], [0.0043], [21.0])
    assert 0 <= plain[0][0] - low[0] < 0.02 * 0.0043 * NORMAL
    assert high == plain[1]


@pytest.mark.parametrize("level", [0.3, 0.5, 0.95, 0.999])
def test_contradicted_estimates_are_not_told_from_0(level):
    """Also at levels whose normal quantile is below 1, and however sure the estimate seems."""
    estimates, errors = np.array([1.0, -1.0, 0.02, 1.0]), np.array([1e-3, 1e-3, 0.004, 1e-3])
    deviates = np.array([-1.0, 1.0, -0.2, 0.3])
    low, high = widened_interval(estimates, errors, deviates, NORMAL_TAIL, np.inf, level)
    assert (low <= 0).all()
    assert (high >= 0).all()


def test_straying_scores_widen_each_side():
    law = NullTail(np.array([-3.0, 0.0, 2.5]), np.array([-NORMAL, 0.0, NORMAL]))
    plain, (low, high) = ends_of([0.1], [0.01], [10.0], law)
    np.testing.assert_allclose(0.1 - low, 0.025, rtol=1e-6)
    np.testing.assert_allclose(high - 0.1, 0.03, rtol=1e-6)
    narrow = NullTail(np.array([-1.0, 0.0, 1.0]), np.array([-NORMAL, 0.0, NORMAL]))
    np.testing.assert_array_equal(ends_of([0.1], [0.01], [10.0], narrow)[1][1], plain[1])


def test_far_above_the_cutoff_selection_does_not_matter():
    estimate, error = np.array([0.5]), np.array([0.01])
    low, high = selected_interval(estimate, error, np.array([0.03]), 0.95)
    plain = plain_interval(estimate, error, np.inf, 0.95)
    np.testing.assert_allclose([low, high], plain, atol=1e-6)


def test_ends_solve_their_equations():
    estimate, error, cutoff = np.array([0.11]), np.array([0.02]), np.array([0.09])
    low, high = selected_interval(estimate, error, cutoff, 0.9)
    for end, tail in ((low, 0.05), (high, 0.95)):
        ratio = norm.sf(estimate, end, error) / norm.sf(cutoff, end, error)
        assert ratio[0] == pytest.approx(tail, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.5, 1.5, 3.0])
def test_coverage_given_selection(share):
    """Binomial over about 20,000 selected: 5 standard deviations, alarms < 1e-6 each."""
    rng, cutoff = np.random.default_rng(5), 2.0
    draws = norm.isf(rng.random(SIZE) * norm.sf(cutoff - share)) + share
    ones = np.ones(SIZE)
    low, high = selected_interval(0.05 * draws, 0.05 * ones, 0.05 * cutoff * ones, 0.95)
    covered = ((low <= 0.05 * share) & (0.05 * share <= high)).mean()
    assert abs(covered - 0.95) < 5 * np.sqrt(0.95 * 0.05 / SIZE)
    plain = plain_interval(0.05 * draws, 0.05 * ones, np.inf, 0.95)
    naive = ((plain[0] <= 0.05 * share) & (0.05 * share <= plain[1])).mean()
    assert share > 2 or naive < 0.93  # well above the cutoff selection changes little


def test_bisection_finds_roots_and_stays_at_the_ends():
    roots = bisect(lambda x: x - np.array([0.25, -1.0, 9.0]), np.zeros(3), np.ones(3))
    np.testing.assert_allclose(roots, [0.25, 0.0, 1.0], atol=1e-12)
