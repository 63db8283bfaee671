"""Intervals of numbers cover: curve, bins, quantiles, means, shares with data, changes.

The tolerance is 4.9 standard deviations of a binomial share of 0.95: a false alarm in a million
seeds. Each test fails for intervals 10 % too short, or if each report counts as a separate device.
"""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from decoder.numbers.changes import compare_numbers
from decoder.numbers.quantities import mean_of, of_those_with_data, quantile_ends
from decoder.numbers.survival import Survival, cut_counts, survival
from decoder.typing import Flags, Floats
from tests.number_draws import aggregate_of, counts_of, metric_of
from tests.number_populations import POPULATIONS, shares_at_or_above
from tests.number_support import Fleet, jittered_shares

pytestmark = pytest.mark.statistical

LN3 = math.log(3)
LEVEL = 0.95
SHORTER = 0.9222  # of a normal interval 10 % shorter than one of 0.95
SIGMAS = 4.9


def tolerance(trials: float, correlation: float = 1.0) -> float:
    """Bounds for a share of covering intervals; correlation: factor of the variance."""
    return SIGMAS * math.sqrt(LEVEL * (1 - LEVEL) * correlation / trials)


def covered(low: Floats, high: Floats, truth: Floats) -> Flags:
    """Whether intervals hold the truth."""
    flags: Flags = (low <= truth) & (truth <= high)
    return flags


def draws(
    life: float, mode: str, devices: int, runs: int, seed: int
) -> Iterator[tuple[Survival, Floats]]:
    """Curves of all populations, with the truth."""
    rng = np.random.default_rng(seed)
    for population in POPULATIONS:
        metric = metric_of(population, life, mode=mode)
        truth = shares_at_or_above(population, np.array(metric.details.asked))
        for _ in range(runs):
            yield survival(counts_of(metric, truth, devices, rng), 1.0), truth


@pytest.mark.parametrize("mode", ["memo", "once"])
@pytest.mark.parametrize("life", [pytest.param(LN3, marks=pytest.mark.long), 4.0])
def test_the_curve_and_the_bins(life: float, mode: str) -> None:
    """Intervals that are 10 % too short would cover 92.2 %: they must fail."""
    hits, short, bins, trials, num_bins = 0, 0, 0, 0, 0
    for curve, truth in draws(life, mode, 10_000, 25, seed=1):
        hits += int(covered(*curve.intervals(LEVEL), truth).sum())
        short += int(covered(*curve.intervals(SHORTER), truth).sum())
        trials += len(truth)
        for j in range(0, len(truth) - 1, 2):  # pairs that share no edge
            weights = np.zeros(len(truth))
            weights[j], weights[j + 1] = 1.0, -1.0
            one = of_those_with_data(curve, weights, 0.0, LEVEL)
            bins += one.low <= truth[j] - truth[j + 1] <= one.high
            num_bins += 1
    of_a_set = 1.0 if mode == "memo" else 2.0  # cuts of one set of cohorts are not independent
    assert abs(hits / trials - LEVEL) < tolerance(trials, of_a_set)
    assert short / trials < LEVEL - 0.7 * tolerance(trials, of_a_set)
    assert abs(bins / num_bins - LEVEL) < tolerance(num_bins, of_a_set)


@pytest.mark.parametrize("life", [LN3, 4.0])
def test_intervals_are_as_wide_as_binomial(life: float) -> None:
    """A cut is asked of one device in K, and its ones are binomial: that bounds the width.

    20 curves of each population against Wilson's intervals of drawn counts: means within 2 %, which
    is 4 standard errors of their difference (1 in 16,000, were the seed another one).
    """
    rng, devices, z = np.random.default_rng(5), 100_000, 1.959964
    ours, bound = [], []
    for curve, truth in draws(life, "memo", devices, 20, seed=5):
        low, high = curve.intervals(LEVEL)
        ours.append(float((high - low).mean()) / 2)
        zero, gap = curve.counts.offset, curve.counts.spread
        n = rng.binomial(devices, 1 / len(truth), len(truth))
        shown = rng.binomial(n, zero + gap * truth) / n
        middle = shown + z**2 / (2 * n)
        half = z * np.sqrt(shown * (1 - shown) / n + z**2 / (4 * n**2))
        ends = [((middle + sign * half) / (1 + z**2 / n) - zero) / gap for sign in (-1, 1)]
        bound.append(float((np.clip(ends[1], 0, 1) - np.clip(ends[0], 0, 1)).mean()) / 2)
    assert np.mean(ours) == pytest.approx(np.mean(bound), rel=0.02)


@pytest.mark.parametrize("mode", ["memo", "once"])
def test_quantiles(mode: str) -> None:
    """At least the level for each quantile; the true one is that of all numbers."""
    shares = (0.05, 0.5, 0.9)
    hits, trials = 0, 0
    for curve, truth in draws(2.0, mode, 20_000, 15, seed=2):
        for share in shares:
            lower, upper = quantile_ends(curve, share, LEVEL)
            below = 1 - truth
            reaches = lower < 0 or below[lower] <= share
            stays = upper >= len(truth) or below[upper] >= share
            hits += reaches and stays
            trials += 1
    assert hits / trials > LEVEL
    curve, truth = next(draws(4.0, mode, 1_000_000, 1, seed=3))
    lower, upper = quantile_ends(curve, 0.5, LEVEL)
    assert 0 < upper - lower <= 3  # and it is not wide for nothing


@pytest.mark.long
def test_means_of_those_with_data() -> None:
    """Without bias but that of a quotient; on a logarithmic scale the mean is the geometric one."""
    rng = np.random.default_rng(4)
    hits, short, trials, errors = 0, 0, 0, []
    for population in (POPULATIONS[2], POPULATIONS[3], POPULATIONS[6]):
        metric = metric_of(population, 2.0, ask="mean", whole=False, none="apart")
        numbers = population.draw(rng, 400_000)
        shares = np.concatenate([[0.6], 0.6 * jittered_shares(metric, numbers)])
        clipped = np.clip(numbers, population.first, population.last)
        truth = float((np.log(clipped) if population.scale == "log" else clipped).mean())
        for _ in range(300):
            mean = mean_of(survival(counts_of(metric, shares, 20_000, rng), 1.0), LEVEL)
            ends = [mean.low, mean.high, mean.estimate]
            low, high, estimate = np.log(ends) if mean.geometric else np.array(ends)
            hits += low <= truth <= high
            short += abs(truth - (low + high) / 2) <= 0.8 * (high - low) / 2
            errors.append((estimate - truth) / ((high - low) / 3.92))
            trials += 1
    assert abs(hits / trials - LEVEL) < tolerance(trials)
    assert short / trials < LEVEL - 0.02
    assert abs(float(np.mean(errors))) < 0.1 + SIGMAS / math.sqrt(trials)


DEVICES, PERIODS = 6_000, 8


def walks(kind: str, rng: np.random.Generator) -> list[Floats]:
    """Numbers of devices in each period, standard normal in all."""
    numbers = rng.standard_normal(DEVICES)
    found = []
    for _ in range(PERIODS):
        found.append(numbers.copy())
        fresh = rng.standard_normal(DEVICES)
        if kind == "ar":
            numbers = 0.9 * numbers + math.sqrt(0.19) * fresh
        elif kind == "regimes":
            numbers = np.where(rng.random(DEVICES) < 0.15, fresh, numbers)
    return found


@pytest.mark.parametrize("kind", ["fixed", "ar", "regimes"])
@pytest.mark.parametrize("irregular", [pytest.param(False, marks=pytest.mark.long), True])
def test_replicates_measure_what_repeated_answers_do(kind: str, irregular: bool) -> None:
    """Pools of all periods, and changes from the first to the last, also of irregular devices.

    Taking reports for devices covers far less: the negative control.
    """
    rng = np.random.default_rng(7)
    edges = {"edges": [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], "whole": False, "num_cohorts": 28}
    metric = metric_of(POPULATIONS[3], 4.0, **edges)
    cuts = np.array(metric.details.asked)
    truth = np.array([0.5 * math.erfc(cut / math.sqrt(2)) for cut in cuts])
    pooled = changed = naive = trials = 0
    for _ in range(40):
        fleet = Fleet.make(metric, DEVICES, rng)
        chance = rng.beta(0.8, 0.8, DEVICES) if irregular else np.ones(DEVICES)
        windows = [
            fleet.report(numbers, period, rng.random(DEVICES) <= chance)
            for period, numbers in enumerate(walks(kind, rng))
        ]
        whole = windows[0]
        for window in windows[1:]:
            whole = whole.merge(window)
        curve = survival(cut_counts(whole), float(PERIODS))
        assert curve.freedom == 21
        pooled += int(covered(*curve.intervals(LEVEL), truth).sum())
        naive += int(covered(*survival(cut_counts(whole), 1.0).intervals(LEVEL), truth).sum())
        change = compare_numbers(windows[0], windows[-1])
        changed += int(((change.rows.low <= 0) & (change.rows.high >= 0)).sum())
        trials += len(cuts)
    allowed = 0.01 + tolerance(trials, 1.5)  # intervals of one run share the measured factor
    assert abs(pooled / trials - LEVEL) < allowed
    assert abs(changed / trials - LEVEL) < allowed
    assert naive / trials < LEVEL - allowed


def test_no_change_is_found_where_there_is_none() -> None:
    """p of any change is uniform: its share below 0.05 within 4.9 deviations."""
    rng = np.random.default_rng(9)
    metric = metric_of(POPULATIONS[3], 4.0)
    shares = shares_at_or_above(POPULATIONS[3], np.array(metric.details.asked))
    small = 0
    for _ in range(200):
        before, after = (aggregate_of(metric, shares, 20_000, rng) for _ in range(2))
        small += compare_numbers(before, after).p_any < 0.05
    assert small / 200 < 0.05 + SIGMAS * math.sqrt(0.05 * 0.95 / 200)
