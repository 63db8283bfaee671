"""All that `rappor metrics check` finds in a file: the review, the attacks, and predicted maps.

`rappor plan` asks the same before it recommends a metric.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from importlib import import_module

from metric_design.review import Finding, check_metrics
from rappor_core.metrics.file import MetricsFile


def whole_check(
    metrics: MetricsFile,
    population: int | None,
    *,
    relay: bool = False,
    periods: int | None = None,
    places: int | None = None,
) -> list[Finding]:
    """Find what a reviewer should know of a file.

    population: devices expected to report; without it nothing is attacked or predicted.
    relay: with and without one.  periods, places: of the maps that are predicted.
    """
    today = datetime.now(UTC).date()
    findings = list(check_metrics(metrics, today=today, population=population))
    if population is not None:
        findings.extend(_tracking(metrics, population, relay=relay))
        findings.extend(_maps(metrics, population, today, periods, places))
    return findings


def _tracking(metrics: MetricsFile, population: int, *, relay: bool) -> Iterable[Finding]:
    """Attack what devices will send, where the numerical libraries for it are installed."""
    try:
        gather = import_module("privacy_audit.linkage_over_time")
        lives = import_module("privacy_audit.life_findings")
        simulate = import_module("privacy_audit.trackability")
        behind = import_module("privacy_audit.relay_linkage")
        numpy = import_module("numpy")
    except ModuleNotFoundError as error:
        missing = f"re-linking was not tried, as {error.name} is missing: "
        return [Finding("warning", "", missing + "pip install 'rappor-telemetry[all]'")]
    rng = numpy.random.default_rng(0)
    return [
        *simulate.track_findings(metrics, population, rng),
        *gather.gathering_findings(metrics, population, rng),
        *lives.life_findings(metrics, population, rng),
        *(behind.relay_findings(metrics, population, rng) if relay else ()),
    ]


def _maps(
    metrics: MetricsFile, population: int, today: date, periods: int | None, places: int | None
) -> Iterable[Finding]:
    """Predict the maps, where the numerical libraries for it are installed."""
    try:
        predicted = import_module("metric_design.map_findings")
    except ModuleNotFoundError:  # `_tracking` names what is missing
        return []
    found: Iterable[Finding] = predicted.map_findings(metrics, population, today, periods, places)
    return found
