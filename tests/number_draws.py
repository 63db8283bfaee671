"""Aggregates of metrics of numbers, drawn exactly: a cohort's symbols are multinomial."""

from datetime import date
from typing import Any

import numpy as np

from decoder.numbers.survival import CutCounts, cut_counts
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import table_metrics
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import aggregate_of_metric, draw_cohorts
from tests.number_populations import Population

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
    (metric,) = table_metrics(population.name.replace("0", "-zero"), table | changes)
    return metric


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
    normalized: Floats = chances / chances.sum(axis=1, keepdims=True)
    return normalized


def counts_of(metric: Metric, shares: Floats, devices: int, rng: np.random.Generator) -> CutCounts:
    """Draw reports of `devices` as `aggregate_of` does, sorted by question for the decoder."""
    return cut_counts(aggregate_of(metric, shares, devices, rng))
