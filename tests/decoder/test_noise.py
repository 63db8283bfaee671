"""Moments and variances against enumeration and simulation of single devices."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from decoder.estimation.least_squares import null_variance
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.model.null_distribution import FEW_COHORTS, NORMAL_TAIL, _cumulants, null_tail
from decoder.numerics.bit_tensor import gather_sums, mark_repeated
from rappor_core.mechanism import TwoRoundMechanism

NOISE = BitNoise(keep_one=0.8, keep_zero=0.1, show_one=0.7, show_zero=0.25)


@pytest.mark.parametrize(("num_bits", "num_hashes"), [(4, 1), (3, 2), (4, 3), (2, 2)])
def test_moments_of_a_random_string_by_enumeration(num_bits, num_hashes):
    drawn = list(product(range(num_bits), repeat=num_hashes))
    first = np.mean([0 in bits for bits in drawn])
    both = np.mean([0 in bits and 1 in bits for bits in drawn])
    random = RandomString(num_bits, num_hashes)
    assert random.mean == pytest.approx(first)
    assert random.both == pytest.approx(both)
    assert random.covariance_matrix[0, 1] == pytest.approx(both - first**2)


@pytest.mark.parametrize("bit", [0, 1])
@pytest.mark.parametrize("reports", [1, 2, 5])
def test_variance_of_repeated_reports_by_enumeration(bit, reports):
    kept = NOISE.keep_one if bit else NOISE.keep_zero
    total = square = 0.0
    for permanent, shown in product((0, 1), product((0, 1), repeat=reports)):
        chance = kept if permanent else 1 - kept
        one = NOISE.show_one if permanent else NOISE.show_zero
        for s in shown:
            chance *= one if s else 1 - one
        total += chance * sum(shown)
        square += chance * sum(shown) ** 2
    expected = reports * NOISE.within(bit) + reports**2 * NOISE.between(bit)
    assert square - total**2 == pytest.approx(expected)


@pytest.mark.parametrize("prob_f", [0.0, 0.25, 0.5])
def test_bits_of_a_mechanism_are_exact(prob_f: float) -> None:
    """The core computes with integers, `BitNoise` with doubles: both are exact."""
    mechanism = TwoRoundMechanism.rappor(prob_f, 0.35, 0.7)
    noise = BitNoise.of(mechanism)
    assert (noise.p_star, noise.q_star) == (mechanism.p_star, mechanism.q_star)


SYMBOLS = BitNoise(keep_one=0.6, keep_zero=0.2, show_one=0.8, show_zero=0.1)  # three of them
EACH = np.arange(3, dtype=np.int16)[:, None, None]  # values with a separate symbol


@pytest.mark.parametrize("reports", [1, 2, 3])
def test_covariance_of_symbols_by_enumeration(reports):
    shares, mean, square = np.array([0.5, 0.3, 0.2]), np.zeros(3), np.zeros((3, 3))
    for own, permanent in product(range(3), repeat=2):
        kept = SYMBOLS.keep_one if own == permanent else SYMBOLS.keep_zero
        for shown in product(range(3), repeat=reports):
            rounds = [SYMBOLS.show_one if s == permanent else SYMBOLS.show_zero for s in shown]
            chance, total = shares[own] * kept * np.prod(rounds), np.bincount(shown, minlength=3)
            mean, square = mean + chance * total, square + chance * np.outer(total, total)
    expected = (square - np.outer(mean, mean)) / reports / SYMBOLS.gap**2
    cohort = CohortNoise(SYMBOLS, RandomString(3, 1), np.array([1.0]), float(reports), symbols=True)
    found = cohort.covariance(EACH, shares)[0]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    bits = replace(cohort, symbols=False).covariance(EACH, shares)[0]
    assert np.abs(bits - expected).max() > 0.2 * expected.max()


def test_unlisted_symbols_are_multinomial():
    cohort = CohortNoise(SYMBOLS, RandomString(3, 1), np.array([50.0]), 4.0, symbols=True)
    shares = np.array([0.4, 0.1, 0.0])
    exact, solvable = (f(EACH, shares)[0] for f in (cohort.covariance, cohort.invertible))
    np.testing.assert_allclose(exact.sum(axis=0), 0, atol=1e-12)
    assert np.linalg.eigvalsh(solvable).min() > np.linalg.eigvalsh(exact)[1] / 2
    centered = np.array([0.3, -0.1, -0.2])
    solved = np.linalg.solve(solvable, centered)
    np.testing.assert_allclose(exact @ solved, centered)
    np.testing.assert_allclose(np.linalg.solve(solvable + 7.0, centered), solved)


@pytest.mark.statistical
def test_covariance_of_repeating_devices_by_simulation():
    """Empirical over 4,000 cohorts; 5 standard errors an entry, 10 entries: alarms < 1e-5."""
    rng, draws, devices, reports = np.random.default_rng(11), 4000, 20, 6
    positions = np.array([[[0, 1]], [[1, 2]]], dtype=np.int16)
    holds = np.array([[1, 1, 0, 0], [0, 1, 1, 0]])
    bits = holds[rng.integers(0, 2, (draws, devices))]
    permanent = rng.random(bits.shape) < np.where(bits, NOISE.keep_one, NOISE.keep_zero)
    shown = rng.binomial(reports, np.where(permanent, NOISE.show_one, NOISE.show_zero))
    frequency = shown.sum(axis=1) / (devices * reports)
    debiased = (frequency - NOISE.p_star) / NOISE.gap
    cohort = CohortNoise(
        NOISE, RandomString(4, 2), np.array([devices * reports], dtype=float), float(reports)
    )
    expected = cohort.covariance(positions, np.array([0.5, 0.5]))[0]
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) + expected**2)
    error = np.abs(np.cov(debiased.T) - expected) / (spread / np.sqrt(draws))
    assert error.max() < 5
    once = CohortNoise(NOISE, cohort.random, cohort.reports, 1.0)
    naive = once.covariance(positions, np.array([0.5, 0.5]))[0]
    assert np.abs((np.cov(debiased.T) - naive) / (spread / np.sqrt(draws))).max() > 20


DRAWS = 400_000


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
    """400,000 random strings: the normal is off by 10 to 95 %; ours has 3.5 errors or more left."""
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
