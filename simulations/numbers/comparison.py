"""Compare our designs and published ones by the distance of the fitted distribution to the true
one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from decoder.numbers.fit import fitted_shares, smoothness
from decoder.numbers.quantities import quantile_ends
from decoder.numbers.survival import survival
from decoder.typing import Floats
from simulations.numbers.draws import counts_of, metric_of
from simulations.numbers.populations import POPULATIONS, Population, shares_at_or_above
from simulations.numbers.rivals import RIVALS, Design

OURS = {"thresholds": "memo", "once: thresholds": "once"}
DESIGNS = (*OURS, *RIVALS)
QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95)
LEVEL = 0.95


@dataclass(frozen=True)
class ComparisonSetting:
    """The result of one design at one budget and number of devices.

    w1: geometric mean over the populations of the first Wasserstein distance, range = 1, and its
    Monte-Carlo standard error.  worst: of the populations' means.  max_error: of the distribution
    function, likewise a geometric mean.  coverage, quantiles: of 95 % intervals of the curve and of
    quantiles; half_width: of the curve's; NaN for rivals, which have none here.
    """

    design: str
    budget: float
    devices: int
    w1: float
    w1_error: float
    worst: float
    max_error: float
    coverage: float
    half_width: float
    quantiles: float


def compare(
    budgets: Sequence[float],
    devices: Sequence[int],
    runs: int,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
    designs: Sequence[str] = DESIGNS,
) -> list[ComparisonSetting]:
    """Measure every design at every setting.

    Args:
        budgets: nats for life.
        devices: numbers of them, one report each.
        runs: draws of each population.
        rng: source of the draws.
        progress: called with how many cells of the table are done.
        designs: of `DESIGNS`.
    """
    total = len(designs) * len(budgets) * len(devices)
    cells = []
    for design in designs:
        for budget in budgets:
            for number in devices:
                cells.append(_cell(design, budget, number, runs, rng))
                if progress is not None:
                    progress(len(cells), total)
    return cells


def _cell(
    design: str, budget: float, devices: int, runs: int, rng: np.random.Generator
) -> ComparisonSetting:
    run = partial(_ours, OURS[design]) if design in OURS else partial(_rival, RIVALS[design])
    draws = np.array(
        [[run(one, budget, devices, rng) for one in POPULATIONS] for _ in range(runs)]
    )  # (runs, populations, 5)
    logs = np.log(np.maximum(draws[:, :, 0], 1e-9)).mean(axis=1)
    w1 = math.exp(float(logs.mean()))
    error = w1 * float(logs.std(ddof=1)) / math.sqrt(runs) if runs > 1 else math.nan
    worst = float(draws[:, :, 0].mean(axis=0).max())
    most = math.exp(float(np.log(np.maximum(draws[:, :, 1], 1e-9)).mean()))
    rest = [float(column) for column in draws[:, :, 2:].mean(axis=(0, 1))]
    return ComparisonSetting(design, budget, devices, w1, error, worst, most, *rest)


def _ours(
    mode: str, population: Population, budget: float, devices: int, rng: np.random.Generator
) -> tuple[float, ...]:
    metric = metric_of(population, budget, mode=mode)
    truth = shares_at_or_above(population, np.array(metric.details.asked))
    counts = counts_of(metric, truth, devices, rng)
    curve = survival(counts, 1.0)
    low, high = curve.intervals(LEVEL)
    held = 0
    for share in QUANTILES:
        lower, upper = quantile_ends(curve, share, None, LEVEL)
        reaches = lower < 0 or 1 - truth[lower] <= share
        held += reaches and (upper >= len(truth) or 1 - truth[upper] >= share)
    return (
        *_distances(fitted_shares(counts), truth),
        float(((low <= truth) & (truth <= high)).mean()),
        float((high - low).mean() / 2),
        held / len(QUANTILES),
    )


def _rival(
    design: Design, population: Population, budget: float, devices: int, rng: np.random.Generator
) -> tuple[float, ...]:
    metric = metric_of(population, budget)
    truth = shares_at_or_above(population, np.array(metric.details.asked))
    cells = np.concatenate([[1.0], truth]) - np.concatenate([truth, [0.0]])
    prior = smoothness(counts_of(metric, truth, 10 * metric.params.num_cohorts, rng))
    fitted = design(cells, prior, budget, devices, rng)
    return (*_distances(fitted, truth), math.nan, math.nan, math.nan)


def _distances(fitted: Floats, truth: Floats) -> tuple[float, float]:
    """W1 and the largest error of the distribution function, over the edges."""
    errors = np.abs(np.cumsum(fitted[::-1])[::-1][1:] - truth)
    return float(errors.mean()), float(errors.max())
