"""Samples of shares: known answers, several summits, and the same bytes again."""

import numpy as np

from decoder.estimation.gibbs import sample


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
