"""All that `rappor metrics check` finds in a file: the review, the attacks, and predicted maps.

`rappor plan` asks the same before it recommends a metric.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import lru_cache
from importlib import import_module

from metric_design.review import Finding, check_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile


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
        import_module("privacy_audit.findings")
    except ModuleNotFoundError as error:
        missing = f"re-linking was not tried, as {error.name} is missing: "
        return [Finding("warning", "", missing + "pip install 'rappor-telemetry[all]'")]
    return _attacked(tuple(metrics.metrics.items()), population, relay)


@lru_cache(maxsize=8)
def _attacked(
    metrics: tuple[tuple[str, Metric], ...], population: int, relay: bool
) -> tuple[Finding, ...]:
    """Findings of attacks, drawn once: `rappor plan` asks again about what it recommends."""
    file = MetricsFile(dict(metrics))
    rng = import_module("numpy").random.default_rng(0)
    attack_findings = import_module("privacy_audit.findings").attack_findings
    return tuple(attack_findings(file, population, rng, relay=relay))


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
