"""The epsilon that a metric may claim against readers of published counts, or why it may claim
none."""

from __future__ import annotations

from dataclasses import dataclass

from metric_design.central_privacy import central_epsilon
from rappor_core.errors import ParameterError, shown
from rappor_core.metrics.metric import DEFAULT_MIN_REPORTS_PER_COHORT, Metric

REPORTS_A_COHORT = 130  # of min_reports: the smallest of 32 cohorts then holds about 100
FORGED_SHARE = 0.1  # of a cohort's reports, where nobody says how many an attacker may have made


@dataclass(frozen=True, slots=True)
class CentralClaim:
    """A bound on what readers of published counts learn, with its conditions.

    epsilon: nats, for `reports` of one value.  delta: chance with which it may fail.
    crowd: honest reports in the smallest cohort on which it rests.
    """

    reports: int
    epsilon: float
    delta: float
    crowd: int


def smallest_crowd(metric: Metric, *, forged: float = FORGED_SHARE) -> int:
    """The number of honest reports in the smallest cohort that the metric's declaration
    guarantees.

    Args:
        metric: with `min_reports` and `min_reports_per_cohort`.
        forged: share of a cohort's reports that an attacker may have made himself, in [0, 1).

    Raises:
        ParameterError: where cohorts are so small that no claim is made.
    """
    if not 0 <= forged < 1:
        raise ParameterError(f"forged = {shown(forged)} is not a share from 0 to below 1")
    cohorts = metric.params.num_cohorts
    if metric.min_reports < REPORTS_A_COHORT * cohorts:
        each = metric.min_reports / cohorts
        fits = metric.min_reports // REPORTS_A_COHORT
        fewer = "" if fits < 1 else f", or {fits} cohort{'s' if fits > 1 else ''} at most"
        raise ParameterError(
            f"metric {metric.name!r}: min_reports = {metric.min_reports:,} is {each:,.0f} reports "
            f"for each of {cohorts} cohorts; below {REPORTS_A_COHORT} no claim is made against "
            f"readers of published counts: use min_reports = {REPORTS_A_COHORT * cohorts:,} or "
            f"more{fewer}"
        )
    if metric.cohort_floor < DEFAULT_MIN_REPORTS_PER_COHORT:
        raise ParameterError(
            f"metric {metric.name!r}: min_reports_per_cohort = {metric.cohort_floor} lets a cohort "
            f"of so few be published; no claim is made against readers of published counts below "
            f"{DEFAULT_MIN_REPORTS_PER_COHORT}"
        )
    return max(1, int((1 - forged) * metric.cohort_floor))


def claim(
    metric: Metric,
    reports: int,
    *,
    delta: float,
    crowd: int | None = None,
    forged: float = FORGED_SHARE,
) -> CentralClaim:
    """The bound for `reports` published reports of one value.

    Args:
        metric: whose counts are published.
        reports: of the device, one value.
        delta: chance with which the bound may fail.
        crowd: reports expected in the smallest cohort of a block; None: what the metric's
            declaration makes sure of.
        forged: share of them that an attacker may have made himself.

    Raises:
        ParameterError: as `smallest_crowd` and `central_epsilon`.
    """
    assured = smallest_crowd(metric, forged=forged)
    honest = assured if crowd is None else max(assured, int((1 - forged) * crowd))
    params = metric.params
    each = min(metric.max_reports_per_period, reports)
    epsilon = central_epsilon(
        params.mechanism,
        params.num_hashes,
        crowd=honest,
        reports=reports,
        per_block=each,
        delta=delta,
        single_bit=params.scheme.single_bit,
        symbol=params.scheme.symbols,
    )
    return CentralClaim(reports, epsilon, delta, honest)
