"""Samples of shares: known answers, several summits, and the same bytes again."""

import numpy as np

from decoder.estimation.gibbs import sample


def test_flat_intervals_are_those_of_least_squares() -> None:
    """Columns that do not overlap: each share has its own estimate and standard error."""
    information = np.array([4e4, 1e4, 2.5e5])
    shares = np.array([0.2, 0.05, 0.0])
    found = sample(np.diag(information), information * shares, np.random.default_rng(1))
    mean, error = found.flat_estimates
    low, high = found.flat_interval(0.95)
    expected = 1 / np.sqrt(information)
    assert np.allclose(mean, shares, atol=1e-12)
    assert np.allclose(error, expected)
    assert np.allclose((high - low) / (2 * expected), 1.96, atol=0.45)


def test_indistinguishable_columns_share_the_doubt() -> None:
    """One summit for each: samples visit both, and their intervals are as wide as both."""
    gram = 1e6 * (np.eye(6) + 0.0)
    gram[0, 1] = gram[1, 0] = 0.99999e6
    truth = np.array([0.3, 0.0, 0.0, 0.1, 0.0, 0.0])
    found = sample(gram, gram @ truth, np.random.default_rng(2))
    first = found.shares[:, 0]
    assert (first > 0.25).mean() > 0.05
    assert (first < 0.05).mean() > 0.05
    low, high = found.posterior_interval(0.95)
    assert (high - low)[:2].min() > 0.25
    assert (high - low)[2:].max() < 0.01
