"""The complete check of `rappor metrics check`: the review, the attacks, and predicted maps.

`rappor plan` runs it, too, before it recommends a metric.
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
    """Return everything that a reviewer should know about a metrics file.

    Args:
        metrics: The metrics file.
        population: The number of devices expected to report; None skips attacks and predictions.
        relay: Whether to compare attacks with and without a relay.
        periods: The number of periods in a predicted map.
        places: The number of places per device in a predicted map.
    """
    today = datetime.now(UTC).date()
    findings = list(check_metrics(metrics, today=today, population=population))
    if population is not None:
        # Imported here, because most commands of this group neither attack nor predict.
        from metric_design.map_findings import map_findings

        findings.extend(_attacked(tuple(metrics.metrics.items()), population, relay))
        findings.extend(map_findings(metrics, population, today, periods, places))
    return findings


@lru_cache(maxsize=8)
def _attacked(
    metrics: tuple[tuple[str, Metric], ...], population: int, relay: bool
) -> tuple[Finding, ...]:
    from privacy_audit.findings import attack_findings  # as above

    rng = np.random.default_rng(0)
    return tuple(attack_findings(MetricsFile(dict(metrics)), population, rng, relay=relay))
