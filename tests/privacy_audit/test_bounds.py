"""Bounds of epsilon from guesses: right at the level that they state, and close."""

import math

import numpy as np
import pytest
from scipy import stats

from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.bounds import (
    bennett_p_value,
    claim_p_value,
    detectable,
    lower_bound,
    student_p_value,
    two_sided,
)
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.noise_sums import NoiseSums
from privacy_audit.report import DEFAULT_METRICS
from rappor_core.metrics.compiled import load_metrics


def normal_p_value(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 4.0])
def test_a_bound_errs_as_seldom_as_stated(epsilon: float) -> None:
    """20,000 draws of a level of .05: more than .056 wrong comes once in 10,000 runs."""
    rng = np.random.default_rng(1)
    right = rng.binomial(400, 1 / (1 + math.exp(-epsilon)), 20_000)
    bounds = {int(n): lower_bound(int(n), 400, 0.05) for n in np.unique(right)}
    wrong = np.mean([bounds[int(n)] > epsilon + 1e-12 for n in right])
    assert wrong < 0.056
    assert wrong > 0.02 or epsilon == 0.0  # and not idle


def test_the_bound_and_the_p_value_agree() -> None:
    for right in range(150, 200):
        low = lower_bound(right, 200, 0.01)
        assert claim_p_value(right, 200, low + 1e-6) > 0.01 - 1e-6
        if low > 0:
            assert claim_p_value(right, 200, low - 1e-6) < 0.01 + 1e-6


def test_no_guess_bounds_nothing() -> None:
    assert lower_bound(0, 0, 0.01) == 0.0
    assert claim_p_value(0, 0, 1.0) == 1.0
    assert math.isinf(detectable(0, 1.0, 0.01))
    assert math.isinf(detectable(5, 6.0, 0.001))


def test_the_detectable_is_detected_95_percent() -> None:
    """2,000 draws: outside .935 to .97 comes once in 1,000 runs (counts are coarse)."""
    needed = detectable(5_000, 1.0, 0.001)
    assert 1.05 < needed < 1.3
    rng = np.random.default_rng(2)
    right = rng.binomial(5_000, 1 / (1 + math.exp(-needed)), 2_000)
    caught = np.mean([claim_p_value(int(n), 5_000, 1.0) < 0.001 for n in right])
    assert 0.935 < caught < 0.97


def test_two_sided_p_values_see_both_sides() -> None:
    p = two_sided(np.array([400, 500, 600]), np.array([1000] * 3), 0.5)
    assert p[0] < 1e-8
    assert p[1] > 0.9
    assert p[2] < 1e-8


def test_randomized_response_is_found_and_not_overstated() -> None:
    """A feature that is right with e^1.5 odds: the bound of 40,000 guesses is within 10 %."""
    rng = np.random.default_rng(3)
    world = rng.integers(0, 2, 40_000)
    kept = rng.random(40_000) < 1 / (1 + math.exp(-1.5))
    shown = np.where(kept, world, 1 - world)
    noise = rng.normal(size=40_000)
    table = np.stack([1.0 - 2 * shown, noise, noise], axis=1).astype(np.float32)
    found = attack(table, world, 1.5, 1e-4, 0.25)
    assert 1.35 < found.bound <= 1.5
    assert found.p_value > 1e-4
    worse = attack(table, world, 1.2, 1e-4, 0.25)
    assert worse.p_value < 1e-10


def test_a_small_crowd_is_not_accused_often() -> None:
    """10,000 crowds of 12 at a level of .001; the normal law has 7 times as many false alarms.

    More than .0021 comes once in 1,000 runs.
    """
    params = load_metrics(DEFAULT_METRICS).metrics["homepage"].params
    crowds = np.random.default_rng(4).normal(size=(10_000, 12))
    means, errors = crowds.mean(axis=1), crowds.std(axis=1) / math.sqrt(12)
    wrong = np.mean([student_p_value(t * math.sqrt(11 / 12), 12) < 0.001 for t in means / errors])
    assert wrong < 0.0022
    crowd = crowds[0] + 4 * crowds[0].std() / math.sqrt(12) - crowds[0].mean()
    sums = NoiseSums(4, {"excess": np.array([12, crowd.sum(), (crowd**2).sum()])})
    (check,) = noise_checks("homepage", params, sums, "installed")
    assert check.p_value == pytest.approx(student_p_value(4.0, 12))
    assert check.p_value > 0.002  # 6e-5 by the normal law


def test_few_seldom_set_bits_look_independent() -> None:
    """26 devices, both bits set in 4 of them by chance: the normal law would say 1e-8."""
    share, number = 0.12, 26
    variance = number * (share * (1 - share)) ** 2
    products = 4 * (1 - share) ** 2
    z = products / variance**0.5
    assert normal_p_value(z) < 1e-6
    exact = float(stats.binom.sf(3, number, share**2))
    assert bennett_p_value(z, variance, (1 - share) ** 2) > exact


@pytest.mark.parametrize("z", [0.5, 3.0, 6.0])
def test_with_many_terms_bounds_near_the_normal(z: float) -> None:
    p_value = bennett_p_value(z, 1e6, 1.0)
    assert normal_p_value(z) <= p_value <= 20 * normal_p_value(z)


@pytest.mark.parametrize("kind", [np.uint64, np.uint8, np.int64])
def test_no_count_is_as_likely_as_all(kind: type) -> None:
    """Sums of bits are unsigned: that of none was told as impossible, one audit in 16."""
    p_values = two_sided(np.array([0, 12], dtype=kind), np.full(2, 12), 0.5)
    assert p_values.tolist() == pytest.approx([2 / 4096, 2 / 4096])
