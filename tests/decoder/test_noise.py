"""Moments and variances against enumeration and simulation of single devices."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from decoder.model.noise import BitNoise, CohortNoise, RandomString
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


def test_one_report_has_the_variance_of_a_bernoulli():
    for share, chance in ((0.0, NOISE.p_star), (1.0, NOISE.q_star)):
        variance = NOISE.mechanism_variance(np.array([share]), 1.0)[0]
        assert variance * NOISE.gap**2 == pytest.approx(chance * (1 - chance))


def test_mirrored_rounds_are_those_of_the_complement():
    mirrored = NOISE.mirrored()
    assert mirrored.q_star == pytest.approx(1 - NOISE.p_star)
    assert mirrored.p_star == pytest.approx(1 - NOISE.q_star)
    assert mirrored.within(1) == pytest.approx(NOISE.within(0))
    assert mirrored.between(0) == pytest.approx(NOISE.between(1))


def test_covariances_have_binomial_variances():
    positions = np.array([[[0, 1]], [[1, 2]], [[3, 4]]], dtype=np.int16)
    random = RandomString(4, 2)
    cohort = CohortNoise(NOISE, random, np.array([50.0]), 1.0)
    shares = np.array([0.5, 0.2, -0.3])
    covariance = cohort.covariance(positions, shares)[0]
    rest = 0.3 * random.mean
    bits = np.array([0.5, 0.7, 0.2, 0.0]) + rest
    chance = NOISE.p_star + NOISE.gap * bits
    expected = chance * (1 - chance) / NOISE.gap**2 / 50
    np.testing.assert_allclose(np.diag(covariance), expected)
    assert np.linalg.eigvalsh(covariance).min() > 0


@pytest.mark.parametrize("prob_f", [0.0, 0.25, 0.5])
def test_bits_of_a_mechanism_are_exact(prob_f: float) -> None:
    """The core computes with integers, `BitNoise` with doubles: both are exact."""
    mechanism = TwoRoundMechanism.rappor(prob_f, 0.35, 0.7)
    noise = BitNoise.of(mechanism)
    assert (noise.p_star, noise.q_star) == (mechanism.p_star, mechanism.q_star)


SYMBOLS = BitNoise(keep_one=0.6, keep_zero=0.2, show_one=0.8, show_zero=0.1)  # three of them
EACH = np.arange(3, dtype=np.int16)[:, None, None]  # values with a symbol of their own


@pytest.mark.parametrize("reports", [1, 2, 3])
def test_covariance_of_symbols_by_enumeration(reports):
    """Every permanent symbol, and every series of reports, of a device that holds one of three."""
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
