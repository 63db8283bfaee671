"""All that `rappor metrics check` finds in a file: the review, the attacks, and predicted maps.

`rappor plan` asks the same before it recommends a metric.
"""

from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

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
        # Loaded here: most commands of this group neither attack nor predict.
        from metric_design.map_findings import map_findings

        findings.extend(_attacked(tuple(metrics.metrics.items()), population, relay))
        findings.extend(map_findings(metrics, population, today, periods, places))
    return findings


@lru_cache(maxsize=8)
def _attacked(
    metrics: tuple[tuple[str, Metric], ...], population: int, relay: bool
) -> tuple[Finding, ...]:
    """Findings of attacks, drawn once: `rappor plan` asks again about what it recommends."""
    from privacy_audit.findings import attack_findings  # as above

    rng = np.random.default_rng(0)
    return tuple(attack_findings(MetricsFile(dict(metrics)), population, rng, relay=relay))
