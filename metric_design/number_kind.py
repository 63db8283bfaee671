"""The kind `number` before it ships: what a reviewer should know, and its types."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from metric_design.kinds import KindDesign, Level
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from metric_design.kind_planner import KindPlanner

Z = 1.96
USELESS_CURVE = 0.25  # half-width of an interval of a share, above which a curve says little
LOW_EPSILON = 2.0  # of one report, up to which another mechanism tells a mean better
WIDE_MEAN = 0.1  # of the range


def mean_error(metric: Metric, reports: float, middle: float) -> float:
    """Standard error of a mean at most, where all devices have data, as a part of the range.

    A report adds to the sum over strata between nothing and the widths of its cohort's cuts: such
    a number has at most a quarter of the square of that as variance. Where no data is an answer
    apart, the sum is over the share with data, whose error moves the mean by `middle`. Where a
    share D has data the error is 1 / D times as large.

    Args:
        metric: with `ask = "mean"`.
        reports: of a period, over all cohorts.
        middle: where the mean lies, from 0 at the lowest edge to 1 at the highest.
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
    """Standard error of the share at or above an edge, at most: where half are above it.

    reports: of a period, over all cohorts, which share the questions.
    """
    number, params = metric.details, metric.params
    questions = len(number.asked) / (params.num_bits - 1)
    return math.sqrt(0.25 * questions / reports) / (params.q_star - params.p_star)


def of_the_range(metric: Metric, width: float) -> float:
    """A part of the range of a mean in the unit of its numbers; of logarithms, as a factor."""
    edges = metric.details.edges
    if metric.details.scale == "log":
        return float((edges[-1] / edges[0]) ** width)
    return float(width * (edges[-1] - edges[0]))


def _mean(metric: Metric, reports: int) -> tuple[Level, str]:
    """What is known of a mean at most, wherever the numbers lie."""
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
            f"{message} in the middle of the range, {low} at its lower end, where all devices have "
            f"data; {'to the power of 1.4' if number.scale == 'log' else '1.4 times as far'} where "
            "30 % have none"
        )
    if central <= WIDE_MEAN:
        return "note", message
    return "warning", f"{message}: {100 * central:.0f} % of the range; lower `to`, or raise epsilon"


class NumberDesign(KindDesign):
    """A metric of numbers."""

    name, part = "number", "numbers"

    def turns(self, metric: Metric) -> int:
        """Periods over which the one report is spread."""
        return int(metric.details.spread)

    def planner(self) -> KindPlanner:
        """Return the planner of numbers, which predicts the errors of means and of curves."""
        planner: KindPlanner = import_module("metric_design.number_planner").PLANNER
        return planner

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:
        """How well a window of so many devices tells its shares, or its mean."""
        number, params = metric.details, metric.params
        replicates = params.num_cohorts // number.stride(params.num_bits)
        if number.mode == "memo" and replicates < 2:
            message = (
                "one cohort for each question: windows of several periods, and changes between "
                "them, get intervals by a bound, not a measurement; use num_cohorts = "
                f"{4 * replicates} times {number.stride(params.num_bits)}"
            )
            yield "warning", message
        if number.mode == "once" and number.ask == "mean" and metric.epsilon_one <= LOW_EPSILON:
            message = (
                "of one report for the mean alone, the piecewise and the hybrid mechanism (Wang et "
                "al. 2019), which this package does not have, are up to 1.3 times as near at "
                "epsilon 1 to 2, up to 1.5 times below, and tell no quantiles"
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

    def value_type(self, metric: Metric) -> str:  # noqa: ARG002
        """Any number."""
        return "number"

    def python_type(self, metric: Metric) -> str:  # noqa: ARG002
        """Any number."""
        return "float"

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Its edges from the middle on, where most numbers are."""
        edges = metric.details.edges
        return sorted(edges, key=lambda edge: abs(edges.index(edge) - len(edges) // 2))

    def adds(self, metric: Metric) -> bool:
        """Whether it is a sum."""
        return bool(metric.details.of_period == "sum")


KIND = NumberDesign()
