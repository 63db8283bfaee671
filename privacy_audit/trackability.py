"""How well the reports of one device can be linked to each other, and sentences about it.

The figures are those of `location_attacks`, run for a metric's own parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from metric_design.review import Finding
from privacy_audit.location_attacks import AttackResult, attack, relinked, series_scores
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams
from rappor_core.risk import groups_together, linked_by_groups, place_groups

Floats = NDArray[np.float64]
CROWD = 1_500
PERIODS = (1, 7, 30)
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
WORRYING = 0.05  # of devices re-linked after a year
_MOST_GROUPS = 1 << 40  # of a crowd: more tell no more apart
_MOST_BITS = 128  # more bits only make the attacks stronger, and slower to run


def reports_in(metric: Metric, periods: int) -> int:
    """At most so many reports of one slot has a device in some periods (1 or more) in a row."""
    asked = (
        metric.details if metric.rules.takes_fixes and metric.location is None else metric.location
    )
    most = periods if asked is None else asked.most_reports_in(periods)
    return min(most, metric.max_reports or most)


def attacks_on(
    metric: Metric, periods: tuple[int, ...], crowd: int, rng: np.random.Generator
) -> list[AttackResult]:
    """Attack simulated devices of one cohort, which report for some periods before and as many
    after."""
    params = _attackable(metric.params)
    groups = place_groups(metric)
    with threadpool_limits(1):
        return [
            attack(params, reports_in(metric, number), crowd, rng, groups) for number in periods
        ]


def _attackable(params: RapporParams) -> RapporParams:
    if params.scheme.own_bits and params.num_bits > _MOST_BITS:
        return params.replace(num_bits=_MOST_BITS)
    return params


def trackability_text(metric: Metric, crowd: int = CROWD) -> str:
    """Sentences on how many devices both linkage attacks re-link after 1, 7 and 30 periods.

    crowd: devices of a cohort; more than `CROWD` are not simulated.
    """
    if metric.max_reports == 1:
        return "Each device reports once for life: there is no second report to link it to."
    size = max(2, min(crowd, CROWD))
    found = attacks_on(metric, PERIODS, size, np.random.default_rng(0))
    what = "value" if metric.location is None else "place"
    parts = [
        f"after {periods} a change of {what} is guessed with AUC {result.change_auc:.2f} and "
        f"{result.relinked:.1%} of devices are re-linked"
        for periods, result in zip(PERIODS, found, strict=True)
    ]
    return (
        f"What these parameters do not hide from an observer who can link a device's reports over "
        f"some {metric.period}s, among {size:,} devices of a cohort{_groups_in_words(metric)}: "
        f"{'; '.join(parts)} "
        f"(.50 and {1 / size:.1%} are guesses).{_when(metric)} docs/location.md says what follows."
    )


def _when(metric: Metric) -> str:
    """What the attacks leave out."""
    if not metric.params.mechanism.has_permanent_round:
        return ""
    return (
        f" They know neither when answers changed nor in which {metric.period}s data were; who "
        "does finds more devices."
    )


def _groups_in_words(metric: Metric) -> str:
    groups = place_groups(metric)
    return f", in which level and turn tell {groups} groups apart" if groups > 1 else ""


@dataclass(frozen=True)
class FileAttack:
    """How many devices an observer re-links over all metrics of a file.

    by_groups: share of devices re-linked by what is public alone: cohorts, levels, turns.
    relinked: by that and the permanent bits of all slots.  groups: into which devices fall.
    """

    periods: int
    groups: int
    by_groups: float
    relinked: float


def attack_file(
    metrics: Sequence[Metric],
    periods: int,
    population: int,
    rng: np.random.Generator,
    crowd: int = CROWD,
) -> FileAttack:
    """Re-link simulated devices by all slots of all location metrics, and by the cohorts of all
    metrics.

    metrics: one of each declared name.  periods: before, and as many after.
    population: devices that report. At most `crowd` of them are drawn, in so many groups that each
        has as many to hide among as in the population, or `crowd` if that is less.
    """
    groups = groups_together(metrics)
    size = max(min(crowd, population), 2)
    shrunk = max(1, min(round(size * groups / population), _MOST_GROUPS))
    score = np.zeros((size, size))
    with threadpool_limits(1):
        for metric in metrics:
            if metric.location is not None and metric.max_reports != 1:
                score += _metric_scores(metric, periods, size, rng)
        found = relinked(score, shrunk, rng)
    return FileAttack(periods, groups, linked_by_groups(groups, population), found)


def _metric_scores(metric: Metric, periods: int, crowd: int, rng: np.random.Generator) -> Floats:
    location, params = metric.location, _attackable(metric.params)
    assert location is not None  # noqa: S101 (of location metrics alone)
    slots = len(location.slots) if location.num_turns == 1 else 1  # else it answers in one of them
    places = slots
    if not params.scheme.symbols:
        places = max(1, min(slots, metric.max_memoized_values))
    return series_scores(params, reports_in(metric, periods), slots, places, crowd, rng)


def track_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Warn of metrics by whose reports devices could be followed from year to year.

    population: devices expected to report.
    """
    places = []
    for metric in file.declared:
        if metric.location is None or metric.max_reports == 1:
            continue
        places.append(metric)
        found = attack_file([metric], PERIODS_A_YEAR[metric.period], population, rng)
        if found.relinked > WORRYING:
            yield Finding("warning", metric.base_name, _advice(metric, found))
    if len(places) > 1:
        found = attack_file(places, max(PERIODS_A_YEAR[m.period] for m in places), population, rng)
        if found.relinked > WORRYING:
            yield Finding("warning", "", _advice_together(places, found, population))


def _advice(metric: Metric, found: FileAttack) -> str:
    location = metric.location
    assert location is not None  # noqa: S101 (of location metrics alone)
    slots = len(location.slots)
    way = (
        "a longer period, encoding = 'symbol' with few symbols, fewer bits, "
        + ("fewer slots, " if slots > 1 else "")
        + "or mode = 'window'"
        if location.rules.memoises
        else "fewer cohorts, slots or levels, or a shorter window: when a device answers is public"
    )
    every = f" of each of {slots} slots" if slots > 1 and location.num_turns == 1 else ""
    return (
        f"after a year, {reports_in(metric, found.periods)} reports{every} on each side, "
        f"{found.relinked:.0%} of devices could be re-linked by an observer who links the reports "
        f"of each year, {found.by_groups:.0%} by cohort, level and turn alone; use {way}"
    )


def _advice_together(metrics: Sequence[Metric], found: FileAttack, population: int) -> str:
    names = ", ".join(metric.base_name for metric in metrics)
    return (
        f"the reports of {names} together re-link {found.relinked:.0%} of {population:,} devices "
        f"after a year, {found.by_groups:.0%} by their cohorts, levels and turns alone "
        f"({found.groups:,} groups), for an observer who knows which batches are of one device; "
        "ask each device for one of them, with fewer cohorts in each, and send through a relay"
    )
