"""How far reports of one device can be told to be its own, in words: what memoisation leaves open.

The figures are those of `location_attacks`, run for a metric's own parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from rappor_core.metrics.file import MetricsFile
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.review import Finding
from rappor_core.params import RapporParams
from simulations.location_attacks import AttackResult, attack

CROWD = 1_500
PERIODS = (1, 7, 30)
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
WORRYING = 0.05  # of devices re-linked after a year
_MOST_BITS = 128  # more bits only make the attacks stronger, and slower to run


def reports_in(metric: Metric, periods: int) -> int:
    """How many reports of one slot a device sends in so many periods: 1 or more."""
    location = metric.location
    if location is None or location.mode == "memo":
        return periods
    sent = 1 if location.mode == "once" else math.ceil(periods / location.window)
    return min(sent, metric.max_reports or sent)


def attacks_on(
    metric: Metric, periods: tuple[int, ...], crowd: int, rng: np.random.Generator
) -> list[AttackResult]:
    """Attack devices of one cohort that report for so many periods before, and as many after."""
    params = _attackable(metric.params)
    groups = 1 if metric.location is None else metric.location.num_groups
    with threadpool_limits(1):
        return [
            attack(params, reports_in(metric, number), crowd, rng, groups) for number in periods
        ]


def _attackable(params: RapporParams) -> RapporParams:
    if params.scheme.own_bits and params.num_bits > _MOST_BITS:
        return params.replace(num_bits=_MOST_BITS)
    return params


def trackability_text(metric: Metric) -> str:
    """What the accuracy of these parameters costs: both attacks after 1, 7 and 30 periods."""
    if metric.location is not None and metric.location.mode == "once":
        return "Each device reports once for life: there is no second report to link it to."
    found = attacks_on(metric, PERIODS, CROWD, np.random.default_rng(0))
    parts = [
        f"after {periods} a change of place is guessed with AUC {result.change_auc:.2f} and "
        f"{result.relinked:.1%} of devices are re-linked"
        for periods, result in zip(PERIODS, found, strict=True)
    ]
    return (
        f"What these parameters do not hide from an observer who can link a device's reports over "
        f"some {metric.period}s, in a cohort of {CROWD:,} devices{_told_apart(metric)}: "
        f"{'; '.join(parts)} "
        f"(.50 and {1 / CROWD:.1%} are guesses). docs/location.md says what follows from it."
    )


def _told_apart(metric: Metric) -> str:
    groups = 1 if metric.location is None else metric.location.num_groups
    return f", in which level and turn tell {groups} groups apart" if groups > 1 else ""


def track_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Warn of location metrics whose devices could be followed from year to year.

    population: devices expected to report.
    """
    for metric in file.declared:
        if metric.location is None or metric.location.mode == "once":
            continue
        crowd = min(max(population // metric.params.num_cohorts, 2), CROWD)
        year = PERIODS_A_YEAR[metric.period]
        (found,) = attacks_on(metric, (year,), crowd, rng)
        if found.relinked > WORRYING:
            yield Finding("warning", metric.base_name, _advice(metric, found))


def _advice(metric: Metric, found: AttackResult) -> str:
    location: Any = metric.location
    way = (
        "a longer period, encoding = 'symbol' with few symbols, fewer bits, or mode = 'window'"
        if location.mode == "memo"
        else "fewer cohorts, slots or levels, or a shorter window: when a device answers is public"
    )
    return (
        f"after a year, {found.reports} reports on each side, {found.relinked:.0%} of devices "
        f"could be re-linked among the {found.crowd:,} of their cohort by an observer who links "
        f"the reports of each year; use {way}"
    )
