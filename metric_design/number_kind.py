"""The design of `number` metrics: their review, plans and types."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from metric_design.kind_design import KindDesign, Level, Question, rounded_down
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import table_metrics
from rappor_core.metrics.metric import Metric

Z = 1.96
STRATA = 8, 4, 16, 32  # Numbers of strata to try for a mean
SYMBOLS = 8, 6, 4, 3, 2  # Numbers of symbols to try in mode `once`
FEWER = 2, 1  # Cohorts per question, if the usual four are too many
SECOND_DIAL = 0.9  # epsilon_one divided by epsilon_infinity
USELESS_CURVE = 0.25  # Half-width of a share's interval above which a curve is of little use
LOW_EPSILON = 2.0  # Per report; up to this, a different mechanism estimates a mean better
WIDE_MEAN = 0.1  # A fraction of the range


def mean_error(metric: Metric, reports: float, middle: float) -> float:
    """Bound the standard error of a mean, as a fraction of the range, if all devices have data.

    A report adds between 0 and the widths of its cohort's cuts to the sum over strata, so its
    variance is at most a quarter of the square of that range. If "no data" is a separate answer,
    the sum is over the share with data, whose error moves the mean by `middle`. If only a share D
    has data, the error is 1 / D times as large.

    Args:
        metric: A metric with `ask = "mean"`.
        reports: The number of reports in a period, over all cohorts.
        middle: The position of the mean, from 0 at the lowest edge to 1 at the highest.
    """
    number, params = metric.details, metric.params
    apart = int(number.none == "apart")
    strata = len(number.edges) - 1
    weights = [-middle] * apart + [1 / strata] * strata + [0.0]
    sets, squares = number.stride(params.num_bits), 0.0
    for cohort in range(sets):
        sums = [0.0]
        for question in number.cuts(cohort, params.num_bits):
            sums.append(sums[-1] + weights[question])
        squares += (max(sums) - min(sums)) ** 2
    return math.sqrt(squares * sets / reports) / (2 * (params.q_star - params.p_star))


def curve_error(metric: Metric, reports: float) -> float:
    """Bound the standard error of the share at or above an edge, which is largest at one half.

    `reports` is the number in a period, over all cohorts, which share the questions."""
    number, params = metric.details, metric.params
    questions = len(number.asked) / (params.num_bits - 1)
    return math.sqrt(0.25 * questions / reports) / (params.q_star - params.p_star)


def of_the_range(metric: Metric, width: float) -> float:
    """Return a width, a fraction of a mean's range, in its unit, or as a factor on a log scale."""
    edges = metric.details.edges
    if metric.details.scale == "log":
        return float((edges[-1] / edges[0]) ** width)
    return float(width * (edges[-1] - edges[0]))


def _mean(metric: Metric, reports: int) -> tuple[Level, str]:
    """Describe the worst-case precision of a mean, for any distribution of numbers."""
    number = metric.details
    apart = number.none == "apart"
    lowest, central = (Z * mean_error(metric, reports, middle) for middle in (0.0, 0.5))
    widths = [of_the_range(metric, width) for width in (lowest, central)]
    if number.scale == "log":
        what = "the geometric mean is known to a factor of about"
        low, half = (f"{width:.2f}" for width in widths)
    else:
        what = "the mean is known to about"
        low, half = (f"{width:.4g} {number.unit}" for width in widths)
    message = f"{reports:,} reports a period: {what} {half} either way"
    if apart:
        message = (
            f"{message} in the middle of the range, {low} at its lower end, if all devices have "
            f"data; {'to the power of 1.4' if number.scale == 'log' else '1.4 times as much'} if "
            "30 % have none"
        )
    if central <= WIDE_MEAN:
        return "note", message
    return "warning", f"{message}: {100 * central:.0f} % of the range; lower `to`, or raise epsilon"


class NumberDesign(KindDesign):
    """The design of number metrics."""

    asks = "error"
    usual = {"unit": "units", "of_period": "last", "none": "apart"}  # noqa: RUF012 (never changed)

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield designs with different symbols, strata and cohorts."""
        table, life = question.given, question.life
        half = rounded_down(life / 2)  # Two answers per lifetime
        dials = {"epsilon_infinity": half, "epsilon_one": rounded_down(SECOND_DIAL * half)}
        ways: list[dict[str, Any]] = [
            {"mode": "once", "num_symbols": symbols, "epsilon": life} for symbols in SYMBOLS
        ]
        for way in (*ways, {"mode": "memo", **dials}):
            for edges in _edges(table):
                design = {**way, **edges}
                yield design
                for number in _fewer_cohorts(design | dict(table)):
                    yield design | {"num_cohorts": number}

    def precision(self, metric: Metric, devices: float) -> float:
        """Return the half-width of the 95 % interval, for a mean in its unit or as a factor."""
        number, reports = metric.details, devices / metric.details.spread
        if number.ask == "mean":
            return of_the_range(metric, Z * mean_error(metric, reports, 0.5))
        return Z * curve_error(metric, reports)

    def finding(self, metric: Metric, precision: float, question: Question) -> str:  # noqa: ARG002
        """Describe the precision of the mean, or of the shares above the edges."""
        number = metric.details
        span = f"numbers from {number.edges[0]:g} to {number.edges[-1]:g} {number.unit}"
        if number.ask == "edges":
            return (
                f"estimate the share of devices at or above each of {len(number.edges)} edges, "
                f"for {span}, within {100 * precision:.3g} points, 19 times in 20"
            )
        if number.scale == "log":
            return (
                f"estimate the geometric mean of {span} within a factor of {precision:.4g}, 19 "
                "times in 20"
            )
        return f"estimate the mean of {span} within {precision:.3g} {number.unit}, 19 times in 20"

    def supposed(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Describe the assumed worst-case distributions."""
        if metric.details.ask == "edges":
            return "half of the devices are at or above the edge, which is the least accurate case"
        return (
            "all devices have data, the mean is in the middle of the range, and the numbers have "
            "the least favorable distribution; 1.4 times the error if 30 % have no data"
        )

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:
        """Yield findings on the precision of shares or a mean with this number of devices."""
        number, params = metric.details, metric.params
        replicates = params.num_cohorts // number.stride(params.num_bits)
        if number.mode == "memo" and replicates < 2:
            message = (
                "one cohort for each question: intervals for windows of several periods, and for "
                "changes between them, use a bound, not a measurement; use num_cohorts = "
                f"{4 * replicates} times {number.stride(params.num_bits)}"
            )
            yield "warning", message
        if number.mode == "once" and number.ask == "mean" and metric.epsilon_one <= LOW_EPSILON:
            message = (
                "if one report serves only for a mean, the piecewise and hybrid mechanisms (Wang "
                "et al. 2019), which this package lacks, are up to 1.3 times as accurate at "
                "epsilon 1 to 2, up to 1.5 times below, but give no quantiles"
            )
            yield "note", message
        if population is None:
            return
        reports = max(1, population // number.spread)
        if number.ask == "mean":
            yield _mean(metric, reports)
            return
        half = Z * curve_error(metric, reports)
        level: Level = "warning" if half > USELESS_CURVE else "note"
        message = (
            f"{reports:,} reports a period over {len(number.asked)} questions: the share at or "
            f"above an edge is known to about {100 * half:.1f} points either way"
        )
        if level == "warning":
            message += "; use fewer edges, a larger epsilon, or a longer window"
        yield level, message


def _edges(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    edges = table.get("edges")
    if table.get("ask") != "mean" or not isinstance(edges, Mapping) or "bins" in edges:
        yield {}
        return
    for strata in STRATA:
        yield {"edges": {**edges, "bins": strata}}


def _fewer_cohorts(table: Mapping[str, Any]) -> Iterator[int]:
    """Yield cohort numbers below the usual number; none if the table is not a valid metric."""
    with suppress(MetricsFileError):
        (metric,) = table_metrics("planned", table)
        step = metric.rules.cohort_step(metric)
        yield from (each * step for each in FEWER if each * step < metric.params.num_cohorts)


NUMBER = NumberDesign()
