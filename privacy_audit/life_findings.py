"""Findings of `rappor metrics check` about whose reports a sequence is: by the dates of reports, by
the times of changes in memoised answers, and by the life."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from metric_design.review import Finding
from privacy_audit.linkage_by_life import (
    CROWD,
    FoundByLife,
    can_be_watched,
    dates_are_reported,
    find_by_life,
)
from privacy_audit.lives import World
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.sequence_risk import sequence_risk

PERIODS = 45
WORRYING = 0.05  # of devices found at first guess
COHORTS, TARGETS = 2, 60  # drawn for a finding: a few seconds of a metric
FRESH_COHORTS = 8  # of fresh answers all devices are looked for: fewer than 1 % are found
FEW = 30  # for a sentence


def life_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Attack each metric of places, and each of which no bound holds for the whole sequence.

    population: devices that report, of which each cohort has its share.
    """
    for metric in file.declared:
        crowd = min(CROWD, population // metric.params.num_cohorts)
        if not can_be_watched(metric) or crowd < 2:
            continue
        if metric.params.mechanism.has_permanent_round or dates_are_reported(metric):
            found = _attack(metric, "sparse", PERIODS, crowd, COHORTS, TARGETS, rng)
            message = _message(metric, found, rng)
        else:
            window = metric.location.window if metric.location is not None else PERIODS
            steady, found = (
                _attack(metric, world, window or PERIODS, crowd, FRESH_COHORTS, crowd, rng)
                for world in ("sparse", "seldom")
            )
            message = _fresh_message(metric, steady, found)
        worst = max(found.by_presence, found.by_changes, found.by_life)
        level: Literal["warning", "note"] = "warning" if worst > WORRYING else "note"
        yield Finding(level, metric.base_name, message)


def life_text(metric: Metric) -> str:
    """A sentence on how often a device can be found by the times at which its places changed; ""
    for metrics with a bound.

    Nothing of another metric.
    """
    if metric.location is None or sequence_risk(metric).bounded or not can_be_watched(metric):
        return ""
    rng = np.random.default_rng(0)
    words = _in_words(metric, _attack(metric, "sparse", PERIODS, CROWD, 1, FEW, rng))
    return f" {words[0].upper()}{words[1:]}."


def _attack(
    metric: Metric,
    world: World,
    periods: int,
    crowd: int,
    cohorts: int,
    targets: int,
    rng: np.random.Generator,
) -> FoundByLife:
    """Attack a metric's reports of some periods."""
    (found,) = find_by_life(
        metric, world, rng, periods=(periods,), crowd=crowd, cohorts=cohorts, targets=targets
    )
    return found


def _in_words(metric: Metric, found: FoundByLife) -> str:
    """How often a device is found, by what."""
    what = "value" if metric.location is None else "last known cell"
    if dates_are_reported(metric):
        parts = [f"{found.by_presence:.0%} by the {metric.period}s with a report alone"]
    else:
        parts = [
            f"{found.by_presence:.0%} by which {metric.period}s had data",
            f"{found.by_changes:.0%} by when the {what} changed",
        ]
    return (
        f"who links a device's reports of {PERIODS} {metric.period}s finds it at first guess among "
        f"{found.crowd:,} of its cohort in {', '.join(parts)}, {found.by_life:.0%} by the whole "
        f"life, where that is known of everybody (drawn lives; {1 / found.crowd:.2%} by chance)"
    )


def _fresh_message(metric: Metric, steady: FoundByLife, seldom: FoundByLife) -> str:
    """What is found in both worlds, and how many answers come."""
    return (
        f"who has every answer of {steady.periods} {metric.period}s and its date of arrival finds "
        f"a device at first guess among {steady.crowd:,} of its cohort in {steady.by_presence:.2%} "
        f"of cases by when its app was used, {steady.by_life:.2%} by the whole life (at most "
        f"{steady.bound:.2%}, whatever is known). Of an app that runs only when there is data "
        f"{seldom.came:.0%} of due answers come (accept_days = {metric.accept_days}), and this "
        f"finds {seldom.by_presence:.2%}, {seldom.by_life:.2%} (at most {seldom.bound:.2%}): a "
        "smaller accept_days finds fewer and loses more answers"
    )


def _message(metric: Metric, found: FoundByLife, rng: np.random.Generator) -> str:
    """What is found, in both worlds where answers wait for the app to run, and what to do."""
    words = _in_words(metric, found)
    if not dates_are_reported(metric):
        late = _attack(metric, "seldom", PERIODS, found.crowd, 1, TARGETS, rng)
        words += (
            f"; of an app that runs only when there is data in {late.by_presence:.0%} by the dates "
            "of arrival alone"
        )
    if metric.location is not None:
        use = "mode = 'window' with turn = 'fresh' and hold, under a new name, bounds all three"
    elif dates_are_reported(metric):
        use = f"max_reports = 1, under a new name, leaves one {metric.period}"
        if metric.rules.takes_no_data:
            use += f"; with no_data an app that runs every {metric.period} reports in each"
    else:
        use = (
            "one fresh answer or few have a bound for the sequence: max_reports without a "
            "permanent response (mode = 'once' of numbers), under a new name"
        )
    return f"{words}; {use}"
