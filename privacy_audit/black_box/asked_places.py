"""What a metric asks of fixes, whichever its kind."""

from __future__ import annotations

from rappor_core.metrics.flow import Flow
from rappor_core.metrics.location import Location
from rappor_core.metrics.metric import Metric


def asked_of_fixes(metric: Metric) -> Location | Flow | None:
    """The settings of a metric that takes fixes or trips; None for one of values."""
    if metric.location is not None or not metric.rules.takes_fixes:
        return metric.location
    flow: Flow = metric.details
    return flow
