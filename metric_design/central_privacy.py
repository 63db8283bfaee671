"""The epsilon against readers who see only published counts, if the collector is honest."""

import math

from rappor_core.errors import ParameterError, shown
from rappor_core.metrics.keys import DEFAULT_MIN_REPORTS_PER_COHORT
from rappor_core.metrics.metric import Metric
from rappor_core.risk import risk_of

DELTA = 1e-6  # Probability that the bound fails
MIN_REPORTS_A_COHORT = 130  # For `min_reports`: the smallest of 32 cohorts then has about 100


def central_epsilon(epsilon: float, reports: int, delta: float = DELTA) -> float:
    """Bound what the counts of shuffled reports reveal about one report.

    Counts are sums, so they reveal no more than the reports in random order. The bound is Theorem
    3.1 of Feldman, McMillan and Talwar 2021 ("Hiding Among the Clones", arXiv:2012.12803). It
    protects the value of the report. It does not hide participation, and it does not hold against
    the collector, its host, its disk or its backups.

    Args:
        epsilon: The local epsilon of one report, in nats.
        reports: The number of honest reports that are counted together, including this one.
        delta: The probability that the bound fails, in (0, 1).

    Returns:
        A central epsilon in nats, at most the local epsilon.

    Raises:
        ParameterError: An argument is out of range.
    """
    if not epsilon >= 0:
        raise ParameterError(f"epsilon = {shown(epsilon)} is not a number of nats from 0")
    if type(reports) is not int or reports < 1:
        raise ParameterError(f"reports = {shown(reports)} is not a whole number from 1")
    if not 0 < delta < 1:
        raise ParameterError(f"delta = {shown(delta)} is not between 0 and 1")
    if 16 * math.log(2 / delta) * math.exp(min(epsilon, 700)) > reports:  # Outside the theorem
        return epsilon
    clones = math.exp(epsilon)
    blanket = 8 * math.sqrt(clones * math.log(4 / delta) / reports) + 8 * clones / reports
    return min(epsilon, math.log1p((clones - 1) / (clones + 1) * blanket))


def claim_sentences(metric: Metric, devices: int) -> list[str]:
    """Describe what readers of published counts learn from a report, or why no claim is made.

    Args:
        metric: The metric whose counts are published.
        devices: The number of devices that report in a period.
    """
    if metric.location is not None or metric.rules.details is not None:
        return ["no claim about published counts: this kind has no known bound"]
    if metric.params.scheme.symbols:
        return ["no claim about published counts: symbols have no known bound"]
    params, floor = metric.params, DEFAULT_MIN_REPORTS_PER_COHORT
    if metric.min_reports < MIN_REPORTS_A_COHORT * params.num_cohorts:
        return [
            f"no claim about published counts: min_reports = {metric.min_reports:,} is below "
            f"{MIN_REPORTS_A_COHORT} for each cohort; use min_reports = "
            f"{MIN_REPORTS_A_COHORT * params.num_cohorts:,} or more, or fewer cohorts"
        ]
    if metric.cohort_floor < floor:
        return [
            "no claim about published counts: min_reports_per_cohort = "
            f"{metric.cohort_floor} is below {floor}"
        ]
    # With fewer devices, several periods form one block, and only the declared floor is certain.
    expected = smallest_cohort(devices, params.num_cohorts) if devices >= metric.min_reports else 0
    crowd = max(metric.cohort_floor, expected)
    return [
        "against anyone who sees only published counts, if the collector is honest: epsilon "
        f"{at_most(central_epsilon(metric.epsilon_one, crowd))} (delta {DELTA:.0e}) for 1 "
        f"report, with at least {crowd:,} honest reports in the smallest cohort",
        f"against the collector itself: {risk_of(metric).for_life}, without any condition",
    ]


def smallest_cohort(devices: float, cohorts: int) -> int:
    """Return the expected number of devices in the smallest of `cohorts` random cohorts.

    The minimum of m Poisson counts of mean x is near x - sqrt(2 x ln m)."""
    mean = devices / cohorts
    return max(0, math.floor(mean - math.sqrt(2 * mean * math.log(max(cohorts, 1)))))


def at_most(bound: float) -> str:
    """Format a bound to two significant digits, rounded up."""
    if not 0 < bound < math.inf:
        return f"{bound:g}"
    step = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return f"{math.ceil(bound / step - 1e-9) * step:.10g}"
