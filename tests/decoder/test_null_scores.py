"""The null distribution of a score against enumeration and random strings."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from decoder.estimation.least_squares import null_variance
from decoder.model.noise import RandomString
from decoder.model.null_distribution import FEW_COHORTS, NORMAL_TAIL, _cumulants, null_tail
from decoder.numerics.bit_tensor import gather_sums, mark_repeated

DRAWS = 400_000


def test_even_residuals_have_a_nearly_normal_distribution():
    residual = np.random.default_rng(0).normal(size=(128, 8))
    z = np.linspace(-5, 5, 50)
    assert np.abs(null_tail(residual, RandomString(8, 2)).deviate(z) - z).max() < 0.2


@pytest.mark.parametrize("num_hashes", [1, 2, 3])
def test_cumulants_by_enumeration(num_hashes):
    """All k^h draws of one cohort; bits that two hashes set count once."""
    random, bits = RandomString(4, num_hashes), np.array([0.7, -0.2, 1.5, -0.4])
    draws = product(range(4), repeat=num_hashes)
    sums = np.array([bits[sorted(set(draw))].sum() for draw in draws]) - random.mean * bits.sum()
    for tilt in (-1.3, 0.0, 0.8):
        weights = np.exp(tilt * sums)
        mean = (weights * sums).sum() / weights.sum()
        expected = np.log(weights.mean()), mean, (weights * sums**2).sum() / weights.sum() - mean**2
        found = _cumulants(bits[None], random, np.array([tilt]))
        np.testing.assert_allclose([part[0] for part in found], expected, atol=1e-12)


@pytest.mark.statistical
def test_one_heavy_unlisted_value_in_few_cohorts():
    """400,000 random strings: the normal is off by 10 to 95 %, ours within 4 to 15 %.

    The bounds lie 3.5 standard errors or more beyond what ours reaches, exact or by saddlepoint.
    """
    for cohorts in (16, FEW_COHORTS + 1):
        rng, random = np.random.default_rng(1), RandomString(8, 2)
        residual = rng.normal(size=(cohorts, 8)) + 0.3
        residual[np.arange(cohorts)[:, None], rng.integers(0, 8, (cohorts, 2))] += 3
        tails_hold(rng, residual, random)


def tails_hold(rng, residual, random):
    shape = DRAWS, len(residual), 2
    positions = mark_repeated(rng.integers(0, 8, shape, dtype=np.int16), 8)
    z = gather_sums(positions, residual) - random.mean * residual.sum()
    z /= np.sqrt(null_variance(residual, random))
    deviates = null_tail(residual, random).deviate(z)
    for limit, bound in ((3.0, 0.15), (2.0, 0.04), (-2.0, 0.04), (-3.0, 0.15)):
        expected = norm.sf(abs(limit)) * DRAWS
        for scores, close in ((deviates, True), (z, False)):
            beyond = (np.sign(limit) * scores > abs(limit)).sum()
            assert bool(abs(beyond / expected - 1) < bound) is close


def test_scores_and_deviates_are_inverse_and_rise():
    residual = np.random.default_rng(2).exponential(size=(4, 32)) ** 2
    tail = null_tail(residual, RandomString(32, 2))
    deviates = np.linspace(-3, 12, 100)
    np.testing.assert_allclose(tail.deviate(tail.score(deviates)), deviates, atol=1e-6)
    assert (np.diff(tail.deviate(np.linspace(-3, 30, 200))) > 0).all()


def test_a_residual_of_zeros_says_nothing():
    assert null_tail(np.zeros((3, 4)), RandomString(4, 2)) is NORMAL_TAIL


@pytest.mark.parametrize("bits", [[0.7, -0.2, 1.5], [-0.7, -0.2, -1.5]])
def test_many_hashes_and_far_tilts_match_enumeration(bits):
    """Terms of very different sizes: no sum is lost in rounding to 0, none overflows."""
    random, bits = RandomString(3, 7), np.array(bits)
    draws = product(range(3), repeat=7)
    sums = np.array([bits[sorted(set(draw))].sum() for draw in draws]) - random.mean * bits.sum()
    for tilt in (-60.0, -8.0, 8.0, 60.0):
        peak = (tilt * sums).max()
        weights = np.exp(tilt * sums - peak)
        expected = np.log(weights.mean()) + peak, (weights * sums).sum() / weights.sum()
        found = _cumulants(bits[None], random, np.array([tilt]))
        np.testing.assert_allclose([part[0] for part in found[:2]], expected, rtol=1e-9)


@pytest.mark.parametrize(("k", "h"), [(2, 1), (2, 8), (3, 8), (8, 16), (64, 1), (64, 16)])
def test_tails_of_odd_filters_raise_no_warning(k, h):
    for residual in (np.eye(1, k), -np.ones((2, k)) + np.eye(2, k), np.ones((1, k))):
        deviates = null_tail(residual, RandomString(k, h)).deviate(np.linspace(-9, 9, 19))
        assert np.isfinite(deviates).all()


@pytest.mark.parametrize(("bits", "num_hashes"), [(128, 2), (16, 2), (8, 3)])
def test_scores_of_one_cohort_match_enumeration(bits, num_hashes):
    """One unlisted value of 50 %: the saddlepoint was 3 times off at p = .01 (128 bits)."""
    rng, random = np.random.default_rng(4), RandomString(bits, num_hashes)
    residual = 0.02 * rng.normal(size=(1, bits))
    residual[0, :2] += 0.5
    draws = mark_repeated(
        np.array(list(product(range(bits), repeat=num_hashes)), dtype=np.int16)[:, None], bits
    )
    sums = gather_sums(draws, residual) - random.mean * residual.sum()
    z = sums / np.sqrt(null_variance(residual, random))
    p = norm.sf(null_tail(residual, random).deviate(z))
    some = rng.integers(0, len(z), 100)
    reached = (z > z[some, None] - 1e-7).mean(axis=1)
    np.testing.assert_allclose(p[some], reached, rtol=2e-3)


@pytest.mark.parametrize("cohorts", [2, 3])
def test_few_cohorts_have_chances_of_all_strings(cohorts):
    """All 16^2 or 16^3 strings: never too small by more than the grid of 16,384 steps rounds."""
    rng, random = np.random.default_rng(5), RandomString(4, 2)
    residual = rng.exponential(size=(cohorts, 4)) ** 2
    draws = np.array(list(product(range(4), repeat=2 * cohorts)), dtype=np.int16)
    positions = mark_repeated(draws.reshape(len(draws), cohorts, 2), 4)
    z = gather_sums(positions, residual) - random.mean * residual.sum()
    z /= np.sqrt(null_variance(residual, random))
    p = norm.sf(null_tail(residual, random).deviate(z))
    assert (p > (z[None] > z[:, None] + 2e-3).mean(axis=1) - 1e-9).all()
    assert (p < (z[None] > z[:, None] - 5e-3).mean(axis=1) + 1e-9).all()
