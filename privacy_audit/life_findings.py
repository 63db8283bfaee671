"""Findings of `rappor metrics check` about memoised metrics: the times of changes show in their
reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from metric_design.review import Finding
from privacy_audit.linkage_by_life import CROWD, FoundByLife, can_be_watched, find_by_life
from privacy_audit.lives import World
from rappor_core.metrics.file import MetricsFile
from rappor_core.metrics.metric import Metric
from rappor_core.sequence_risk import sequence_risk

PERIODS = 45
WORRYING = 0.05  # of devices found at first guess
COHORTS, TARGETS = 2, 60  # drawn for a finding: a few seconds of a metric
FEW = 30  # for a sentence
_WORLD: World = "sparse"  # where presence tells most


def life_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Attack each metric of which no bound holds for the whole sequence of answers.

    population: devices that report, of which each cohort has its share.
    """
    for metric in file.declared:
        if sequence_risk(metric).bounded or not can_be_watched(metric):
            continue
        crowd = min(CROWD, population // metric.params.num_cohorts)
        if crowd < 2:
            continue
        found = _attack(metric, crowd, COHORTS, TARGETS, rng)
        worst = max(found.by_presence, found.by_changes, found.by_life)
        level: Literal["warning", "note"] = "warning" if worst > WORRYING else "note"
        yield Finding(level, metric.base_name, _message(metric, found))


def life_text(metric: Metric) -> str:
    """A sentence on how often a device can be found by the times at which its places changed; ""
    for metrics with a bound.

    Nothing of another metric.
    """
    if metric.location is None or sequence_risk(metric).bounded or not can_be_watched(metric):
        return ""
    words = _in_words(metric, _attack(metric, CROWD, 1, FEW, np.random.default_rng(0)))
    return f" {words[0].upper()}{words[1:]}."


def _attack(
    metric: Metric, crowd: int, cohorts: int, targets: int, rng: np.random.Generator
) -> FoundByLife:
    """Attack a metric's reports of 45 periods, of people with data now and then."""
    (found,) = find_by_life(
        metric, _WORLD, rng, periods=(PERIODS,), crowd=crowd, cohorts=cohorts, targets=targets
    )
    return found


def _in_words(metric: Metric, found: FoundByLife) -> str:
    """How often a device is found, by what."""
    what = "value" if metric.location is None else "last known cell"
    parts = [
        f"{found.by_changes:.0%} by when the {what} changed",
        f"{found.by_life:.0%} by the whole life",
    ]
    if metric.location is not None or metric.no_data is not None:
        parts.insert(0, f"{found.by_presence:.0%} by which {metric.period}s had data")
    return (
        f"who links a device's reports of {PERIODS} {metric.period}s finds it at first guess among "
        f"{found.crowd:,} of its cohort in {', '.join(parts)}, where that is known of everybody "
        f"(drawn lives; {1 / found.crowd:.2%} by chance)"
    )


def _message(metric: Metric, found: FoundByLife) -> str:
    use = (
        "mode = 'window' with turn = 'fresh' and hold, under a new name, bounds all three"
        if metric.location is not None
        else "one fresh answer or few have a bound for the sequence: max_reports without a "
        "permanent response (mode = 'once' of numbers), under a new name"
    )
    return f"{_in_words(metric, found)}; {use}"
