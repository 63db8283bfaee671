"""The epsilon that a metric may claim against readers of published counts, or why it may claim
none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from metric_design.central_privacy import central_epsilon
from metric_design.request import PERIODS_A_YEAR
from rappor_core.errors import ParameterError, shown
from rappor_core.metrics.metric import DEFAULT_MIN_REPORTS_PER_COHORT, Metric
from rappor_core.risk import risk_of

REPORTS_A_COHORT = 130  # of min_reports: the smallest of 32 cohorts then holds about 100
MONTH = 30  # reports, of a claim
DELTA = 1e-6  # chance with which a claim may fail, unless said
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


def claims(
    metric: Metric,
    reports: Sequence[int],
    devices: float,
    *,
    delta: float = DELTA,
    forged: float = FORGED_SHARE,
) -> tuple[tuple[CentralClaim, ...], str | None]:
    """The bounds for some numbers of reports; or none, and why nothing is claimed.

    Args:
        metric: whose counts are published.
        reports: of the device, one value; a bound for each.
        devices: that report in a period.
        delta: chance with which a bound may fail.
        forged: share of the reports that an attacker may have made himself.
    """
    if metric.min_reports > devices:
        expected = 0  # several periods make one block: only what is declared is sure
    else:
        expected = smallest_cohort(devices, metric.params.num_cohorts)
    try:
        found = [
            claim(metric, number, delta=delta, crowd=expected or None, forged=forged)
            for number in reports
        ]
    except ParameterError as error:
        return (), str(error)
    return tuple(found), None


def smallest_cohort(devices: float, cohorts: int) -> int:
    """Expected number of devices in the smallest of some cohorts (the least of Poisson counts)."""
    mean = devices / cohorts
    return max(0, math.floor(mean - math.sqrt(2 * mean * math.log(max(cohorts, 1)))))


def claim_sentence(row: CentralClaim) -> str:
    """A bound with its conditions."""
    return (
        "against anyone who sees only published counts, if the collector adds honestly: eps "
        f"{at_most(row.epsilon)} (delta {row.delta:.0e}) for {row.reports} report"
        f"{'s' if row.reports > 1 else ''} of one value, provided at least {row.crowd:,} honest "
        "others in the smallest cohort"
    )


def claim_sentences(metric: Metric, devices: int) -> list[str]:
    """The bounds for one report, a month and a year of days; or why nothing is claimed.

    devices: that report in a period.
    """
    if metric.location is not None or metric.rules.has_details:
        return ["no claim about published counts: none is known for this kind"]
    most = metric.max_reports or math.inf
    counts = {1, MONTH, PERIODS_A_YEAR[metric.period]}
    rows, reason = claims(metric, sorted({int(min(n, most)) for n in counts}), devices)
    if reason is not None:
        return [f"no claim about published counts: {reason}"]
    return [
        *map(claim_sentence, rows),
        f"against the collector itself: {risk_of(metric).for_life}, without any condition",
    ]


def at_most(bound: float) -> str:
    """A bound to two significant digits, rounded up."""
    if not 0 < bound < math.inf:
        return f"{bound:g}"
    step = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return f"{math.ceil(bound / step - 1e-9) * step:.10g}"
