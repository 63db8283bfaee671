"""Numbers of cohorts: which are worth trying, and how many reports they need to be served."""

import math

from rappor_core.metrics.metric import Metric
from rappor_core.risk import CROWD, cohorts_affordable


def numbers_of_cohorts(devices: int, step: int = 1, most: int = 160) -> list[int]:
    """List numbers of cohorts to choose from, largest first: multiples that leave each a crowd.

    Args:
        devices: that report.
        step: of which each number is a multiple.
        most: cohorts worth having.
    """
    numbers, number = [], min(devices // CROWD, most) // step * step
    while number >= step:
        numbers.append(number)
        number = number // 4 // step * step
    return numbers or [step]


def powers_of_cohorts(devices: int, levels: int = 1, most: int = 1 << 16) -> list[int]:
    """List powers of two as `numbers_of_cohorts` does. levels: between which devices divide."""
    largest = min(cohorts_affordable(CROWD * levels, devices), most)
    return [largest >> shift for shift in range(0, 20, 2) if largest >> shift]


def reports_to_serve(metric: Metric) -> int:
    """Expected number of reports that a block needs until each cohort holds `cohort_floor`."""
    return reports_of_cohorts(metric.params.num_cohorts, metric.cohort_floor, metric.min_reports)


def reports_of_cohorts(cohorts: int, floor: int, least: int) -> int:
    """Expected number of reports until each of some cohorts holds enough.

    The least of m Poisson counts of mean x is near x - sqrt(2 x ln m); x is solved for.

    Args:
        cohorts: their number.
        floor: `min_reports_per_cohort`.
        least: `min_reports`.
    """
    spread = math.sqrt(2 * math.log(cohorts))
    mean = (spread / 2 + math.sqrt(spread**2 / 4 + floor)) ** 2
    return max(least, math.ceil(cohorts * mean))
