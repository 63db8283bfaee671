"""The saddlepoint tail against a million random strings."""

import numpy as np
import pytest
from scipy.stats import norm

from decoder.null_scores import NORMAL_TAIL, null_tail

DRAWS = 400_000


def test_even_residuals_have_a_normal_tail_or_are_taken_as_such():
    residual = np.random.default_rng(0).normal(size=(128, 8))
    tail = null_tail(residual, 2)
    z = np.linspace(-4, 5, 50)
    assert np.abs(tail.deviate(z) - z).max() < 0.2
    assert (tail.deviate(z) <= z + 1e-6).all()


@pytest.mark.statistical
def test_one_heavy_unlisted_value_in_few_cohorts():
    """Tail counts of 400,000 random strings: the normal tail is off 20 times, ours within 2."""
    rng = np.random.default_rng(1)
    residual = rng.normal(size=(8, 64))
    residual[np.arange(8)[:, None], rng.integers(0, 64, (8, 2))] += 12
    centred = residual - residual.mean(axis=1, keepdims=True)
    scores = np.zeros(DRAWS)
    for row in centred:
        scores += row[rng.integers(0, 64, (DRAWS, 2))].sum(axis=1)
    z = scores / np.sqrt(2 * (centred**2).mean(axis=1).sum())
    tail = null_tail(residual, 2)
    for limit in (3.0, 3.7):
        expected = norm.sf(limit) * DRAWS
        assert (z > limit).sum() > 3 * expected
        assert (tail.deviate(z) > limit).sum() == pytest.approx(expected, rel=0.5)


def test_scores_and_deviates_are_inverse_and_rise():
    residual = np.random.default_rng(2).exponential(size=(4, 32)) ** 2
    tail = null_tail(residual, 2)
    deviates = np.linspace(-3, 12, 100)
    np.testing.assert_allclose(tail.deviate(tail.score(deviates)), deviates, atol=1e-6)
    assert (np.diff(tail.deviate(np.linspace(-3, 30, 200))) > 0).all()


def test_a_residual_of_zeros_says_nothing():
    assert null_tail(np.zeros((3, 4)), 2) is NORMAL_TAIL
