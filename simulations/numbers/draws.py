"""Aggregates of metrics of numbers, drawn from what each report's symbol has as chances.

One report a device: a cohort's symbols are multinomial with chances that follow from the true
shares between its cuts, which is exact. For several periods devices are simulated one by one, with
memoised answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from decoder.numbers.survival import CutCounts, cut_counts
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file_number import number_metric
from rappor_core.metrics.metric import Metric
from simulations.numbers.populations import Population
from simulations.populations.draws import aggregate_of_metric, draw_cohorts

START = date(2026, 1, 5)


def metric_of(population: Population, life: float, **changes: Any) -> Metric:
    """A metric of a population whose cost for life is `life` nats, mode `memo` unless changed."""
    table: dict[str, Any] = {
        "kind": "number",
        "description": population.name,
        "owner": "simulation@example.org",
        "expires": date(2099, 1, 1),
        "unit": "units",
        "of_period": "last",
        "whole": population.whole,
        "edges": {
            "scale": population.scale,
            "from": population.first,
            "to": population.last,
            "bins": population.bins,
        },
        "none": "zero",
        "mode": "memo",
    }
    if changes.get("mode") == "once":
        table["epsilon"] = life
    else:
        table |= {"epsilon_infinity": life / 2, "epsilon_one": 0.45 * life}
    return number_metric(population.name.replace("0", "-zero"), table | changes)


def aggregate_of(
    metric: Metric, shares: Floats, devices: int, rng: np.random.Generator
) -> Aggregate:
    """One period's counts, a report a device. shares: (K,), true ones at or above the cuts."""
    reports = draw_cohorts(devices, metric.params.num_cohorts, rng)
    rows = rng.multinomial(reports, symbol_chances(metric, shares))
    return aggregate_of_metric(metric, reports, rows, START, START)


def symbol_chances(metric: Metric, shares: Floats) -> Floats:
    """P(symbol of a report) in each cohort, (m, g)."""
    params, number = metric.params, metric.details
    own = np.zeros((params.num_cohorts, params.num_bits))
    for cohort, row in enumerate(own):
        upper = shares[list(number.cuts(cohort, params.num_bits))]
        row[: len(upper) + 1] = np.concatenate([[1.0], upper]) - np.concatenate([upper, [0.0]])
    chances = np.clip(params.p_star + (params.q_star - params.p_star) * own, 0, 1)
    normalised: Floats = chances / chances.sum(axis=1, keepdims=True)
    return normalised


def counts_of(metric: Metric, shares: Floats, devices: int, rng: np.random.Generator) -> CutCounts:
    """Draw reports of `devices` as `aggregate_of` does, sorted by question for the decoder."""
    return cut_counts(aggregate_of(metric, shares, devices, rng))


def jittered_shares(metric: Metric, numbers: Floats) -> Floats:
    """P(at or above the cut) over devices' jitter, of a population given by many numbers. (K,)."""
    number = metric.details
    ends = np.array(number.edges)
    scaled, x = ends, np.clip(numbers, ends[0], ends[-1])
    if number.scale == "log":
        scaled, x = np.log(ends), np.log(x)
    shares = [
        float(np.clip((x - low) / (high - low), 0, 1).mean()) for low, high in pairwise(scaled)
    ]
    return np.array([*shares, float((numbers >= ends[-1]).mean())])


@dataclass
class Fleet:
    """Devices with cohorts and two permanent answers each, for many periods."""

    metric: Metric
    cohorts: Indices
    answers: Indices
    rng: np.random.Generator

    @classmethod
    def make(cls, metric: Metric, devices: int, rng: np.random.Generator) -> Fleet:
        """Draw cohorts and the permanent answer to either symbol; mode `memo`, edges."""
        kept = metric.params.mechanism.p1 / (1 << 16)
        cohorts = rng.integers(0, metric.params.num_cohorts, devices)
        truth = rng.random((devices, 2)) < kept
        answers = np.where(truth, [0, 1], [1, 0])
        return cls(metric, cohorts, answers, rng)

    def report(self, numbers: Floats, period: int, reporting: Flags | None = None) -> Aggregate:
        """The counts of one period. reporting: which devices report; None: all."""
        params, number = self.metric.params, self.metric.details
        asked = np.array(number.asked)
        above = (numbers >= asked[self.cohorts % number.stride(2)]).astype(int)
        told = self.answers[np.arange(len(numbers)), above]
        kept = self.rng.random(len(numbers)) < params.mechanism.p2 / (1 << 16)
        said = np.where(kept, told, 1 - told)
        cohorts = self.cohorts
        if reporting is not None:
            said, cohorts = said[reporting], cohorts[reporting]
        counts = np.zeros((params.num_cohorts, 2), dtype=int)
        np.add.at(counts, (cohorts, said), 1)
        day = START + timedelta(days=period)
        return aggregate_of_metric(self.metric, counts.sum(axis=1), counts, day, day)
