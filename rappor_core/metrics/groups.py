"""Groups of devices by what their reports show for certain (cohort, level, turn), and the size
of these groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rappor_core.metrics.metric import Metric
from rappor_core.params import MAX_COHORTS

CROWD = 1_000  # devices that should share what is public of each


def public_groups(metric: Metric) -> int:
    """Number of groups into which a metric divides devices by what its reports show for certain.

    A device that reports once for life shows its cohort once, which nothing later is compared with.
    """
    if metric.max_reports == 1:
        return 1
    return metric.params.num_cohorts * place_groups(metric)


def place_groups(metric: Metric) -> int:
    """How many groups a location's level and turn divide a cohort into; both show in reports.

    A turn that is drawn anew tells nothing of a device's next one. 1 for metrics of other kinds.
    """
    location = metric.location
    if location is None:
        return 1
    return len(location.grid.levels) * (1 if location.turn == "fresh" else location.num_turns)


def groups_together(metrics: Sequence[Metric]) -> int:
    """Number of groups into which all metrics of a device together divide the devices."""
    return math.prod(map(public_groups, metrics))


def linked_by_groups(groups: int, population: int) -> float:
    """Share of devices that groups of equal chances re-link: groups in use over devices.

    population: devices, 1 or more.
    """
    if groups == 1:
        return 1 / population
    used = -math.expm1(population * math.log1p(-1 / groups))  # share of the groups
    return min(1.0, groups * used / population)


def cohorts_affordable(crowd: int, population: int, metrics: int = 1) -> int:
    """The largest power of two of cohorts for each of some metrics that keeps a crowd together.

    crowd: devices that should share all cohorts.  population: devices.
    A metric has 65,536 cohorts at most.
    """
    each = math.floor((max(1, population // crowd)) ** (1 / metrics) + 1e-9)
    return min(int(1 << (each.bit_length() - 1)), MAX_COHORTS)
