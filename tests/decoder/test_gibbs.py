"""Samples of shares: known answers, several summits, and the same bytes again."""

import numpy as np

from decoder.estimation.gibbs import _exponentials, sample


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


def test_the_same_state_gives_the_same_bytes() -> None:
    rng = np.random.default_rng(3)
    columns = rng.integers(0, 2, size=(8, 12)) - 0.5
    gram = 1e4 * columns.T @ columns + np.eye(12)
    score = gram @ np.append(np.full(4, 0.1), np.zeros(8))
    one, again = (sample(gram, score, np.random.default_rng(4)) for _ in range(2))
    assert one.shares.tobytes() == again.shares.tobytes()
    assert one.weights.tobytes() == again.weights.tobytes()
    other = sample(gram, score, np.random.default_rng(5))
    assert one.shares.tobytes() != other.shares.tobytes()


def test_intervals_of_some_shares_are_those_among_all() -> None:
    """Also of none: of a list of thousands only the samples of what was found are sorted."""
    information = np.array([4e4, 1e4, 2.5e5, 3e4])
    gram = np.diag(information) + 5e3
    found = sample(gram, gram @ np.array([0.2, 0.05, 0.0, 0.01]), np.random.default_rng(6))
    for some in (np.array([3, 1]), np.zeros(0, dtype=np.intp)):
        part = found.of(some)
        for ends, all_ends in (
            (part.flat_interval(0.95), found.flat_interval(0.95)),
            (part.posterior_interval(0.95), found.posterior_interval(0.95)),
            (part.flat_estimates, found.flat_estimates),
        ):
            for end, all_end in zip(ends, all_ends, strict=True):
                np.testing.assert_allclose(end, all_end[some], rtol=1e-12)
        np.testing.assert_allclose(part.disagreement, found.disagreement[some], rtol=1e-12)


def test_exponentials_are_those_of_the_library() -> None:
    """Up to a few bits over all that counts; 0 for what is nothing beside the largest term."""
    logs = np.append(np.linspace(-29.999, 0.0, 30_001), [-30.0, -31.0, -1e9, -np.inf])
    powers = np.empty(len(logs))
    _exponentials(logs, powers)
    np.testing.assert_allclose(powers[:-4], np.exp(logs[:-4]), rtol=3e-15)
    assert not powers[-4:].any()
