"""Intervals cover what they say, and the truncated normal one does so after selection."""

import numpy as np
import pytest
from scipy.stats import norm

from decoder.inference.intervals import bisect, plain_interval, selected_interval

SIZE = 20_000


def test_plain_interval_is_clipped_to_shares():
    low, high = plain_interval(np.array([0.01, 0.99]), np.array([0.1, 0.1]), np.inf, 0.95)
    assert low[0] == 0.0
    assert high[1] == 1.0
    assert high[0] == pytest.approx(0.01 + 1.959964 * 0.1)


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
