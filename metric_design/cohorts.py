"""Cohort numbers: candidates for a plan, and the reports needed before counts are served."""

import math

from rappor_core.metrics.metric import Metric
from rappor_core.risk import CROWD, cohorts_affordable


def numbers_of_cohorts(devices: int, step: int = 1, most: int = 160) -> list[int]:
    """List numbers of cohorts to try, largest first, each with enough devices per cohort.

    Args:
        devices: The number of devices that report.
        step: The number that divides every result.
        most: The maximum number of cohorts.
    """
    numbers, number = [], min(devices // CROWD, most) // step * step
    while number >= step:
        numbers.append(number)
        number = number // 4 // step * step
    return numbers or [step]


def powers_of_cohorts(devices: int, levels: int = 1, most: int = 1 << 16) -> list[int]:
    """List powers of two to try, largest first, each with enough devices per cohort and level.

    `levels` is the number of levels among which the devices are divided."""
    largest = min(cohorts_affordable(CROWD * levels, devices), most)
    return [largest >> shift for shift in range(0, 20, 2) if largest >> shift]


def reports_to_serve(metric: Metric) -> int:
    """Return the expected number of reports until each cohort of a block has `cohort_floor`."""
    return reports_of_cohorts(metric.params.num_cohorts, metric.cohort_floor, metric.min_reports)


def reports_of_cohorts(cohorts: int, floor: int, least: int) -> int:
    """Return the expected number of reports until a block of `cohorts` cohorts is served.

    The minimum of m Poisson counts of mean x is near x - sqrt(2 x ln m), which is solved for x.

    Args:
        cohorts: The number of cohorts.
        floor: The metric's `min_reports_per_cohort`.
        least: The metric's `min_reports`.
    """
    spread = math.sqrt(2 * math.log(cohorts))
    mean = (spread / 2 + math.sqrt(spread**2 / 4 + floor)) ** 2
    return max(least, math.ceil(cohorts * mean))
