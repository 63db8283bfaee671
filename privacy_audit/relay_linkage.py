"""What a relay hides of a fleet of devices, and what it leaves to those who watch times.

The collector behind a relay sees bodies and, if it looks, times of arrival; without one also
addresses. Relay and collector together see all of it: a relay protects from either alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from metric_design.central_privacy import claim_sentences
from metric_design.review import Finding
from privacy_audit.arrivals import MEAN_DELAY, Arrivals, followed_by_address, joined_by_time
from privacy_audit.linkage_over_time import (
    DAYS,
    ENOUGH_FOR_A_FILE,
    GATHERED,
    MOST_CROWD,
    WORRYING,
    gathered_over_time,
    reports_over,
)
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import public_groups


@dataclass(frozen=True)
class RelayLinkage:
    """Shares of devices of whose reports nine tenths are gathered after each of `days`.

    crowd: devices that share cohort, level and turn; at most `MOST_CROWD` of them are drawn, as
        dense in time as all are, which gathers no fewer.
    bodies: by what the collector stores.  watched: by that and times of arrival, behind a relay.
    addressed: by the address alone, without a relay.
    """

    days: tuple[int, ...]
    crowd: float
    bodies: tuple[float, ...]
    watched: tuple[float, ...]
    addressed: tuple[float, ...]


def linkage_behind_relay(
    metric: Metric,
    population: int,
    rng: np.random.Generator,
    *,
    days: tuple[int, ...] = DAYS,
    arrivals: Arrivals | None = None,
    enough: int = ENOUGH_FOR_A_FILE,
) -> RelayLinkage:
    """Attack simulated devices that send one report of a metric in each period.

    Args:
        metric: its parameters, cohorts, levels and turns.
        population: devices that report.
        rng: of devices, reports and times.
        days: over which reports are gathered.
        arrivals: times of use and sending; the usual ones if left out.
        enough: devices to draw for a figure.
    """
    arrivals = arrivals or Arrivals()
    groups = public_groups(metric)
    crowd = population / groups
    drawn = min(population, MOST_CROWD * groups)
    dense = replace(arrivals, length=arrivals.length * drawn / population)
    reports = [reports_over(metric, number) for number in days]

    def gathered(seen: Arrivals | None) -> tuple[float, ...]:
        found = gathered_over_time(metric.params, reports, drawn, groups, rng, enough, seen)
        return tuple(one.gathered for one in found)

    addressed = tuple(followed_by_address(days, GATHERED, rng))
    return RelayLinkage(days, crowd, gathered(None), gathered(dense), addressed)


def linkage_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Yield how many devices are linked with and without a relay, by each metric and by times.

    population: devices that report through the relay.
    """
    for metric in file.declared:
        if reports_over(metric, DAYS[-1]) > 1:
            found = linkage_behind_relay(metric, population, rng)
            worrying = found.watched[-1] > WORRYING
            yield Finding("warning" if worrying else "note", metric.base_name, _text(found))
    if len(file.declared) > 1:
        share = joined_by_time(population)
        yield Finding(
            "warning" if share > WORRYING else "note",
            "",
            f"behind a relay, batches of two metrics that a device records in one moment are each "
            f"other's nearest in time for {share:.2%} of {population:,} devices (mean_delay = "
            f"{MEAN_DELAY:.0f} s); a longer mean_delay joins fewer",
        )


def relay_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Yield `linkage_findings`, and what readers of the published counts of each metric learn."""
    yield from linkage_findings(file, population, rng)
    for metric in file.declared:
        for sentence in claim_sentences(metric, population):
            yield Finding("note", metric.base_name, sentence)


def _text(found: RelayLinkage) -> str:
    def in_words(shares: tuple[float, ...]) -> str:
        return ", ".join(f"{share:.0%}" for share in shares)

    days = ", ".join(str(number) for number in found.days)
    most = "" if found.crowd <= MOST_CROWD else f" (of {MOST_CROWD} of them, which is no fewer)"
    return (
        f"nine tenths of the reports of a device over {days} days are gathered, of about "
        f"{found.crowd:,.0f} devices that share cohort, level and turn{most}: behind a relay, for "
        f"{in_words(found.bodies)} of devices by bodies alone and for {in_words(found.watched)} by "
        "a collector that also watches when batches arrive, if devices are used at the same time "
        "of day give or take half an hour; without a relay for "
        f"{in_words(found.addressed)}, by the address alone. Relay and collector together see both"
    )
