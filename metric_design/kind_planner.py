"""What the planner needs to know of a kind of metric: its designs, and the error of each.

A kind is planned if its entry in `metric_design.kinds` has a planner (`KindDesign.planner`), a
subclass of `KindPlanner`. Nothing else of the planner knows the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from metric_design.metric_plan import MetricPlan, MetricToPlan, Review
from metric_design.solve_plan import solve_metric
from rappor_core.metrics.metric import Metric
from rappor_core.risk import CROWD, cohorts_affordable


class KindPlanner:
    """How metrics of one kind are planned.

    asks: the key by which a question says how well a metric is to be told.
    extra_keys: of a question, beside those of `metrics.toml` and `asks`.
    usual: keys of `metrics.toml` where a question does not say.
    """

    asks: Literal["error", "share"] = "error"
    extra_keys: frozenset[str] = frozenset()
    usual: Mapping[str, Any] = {}

    def plan(self, question: MetricToPlan, review: Review) -> MetricPlan:
        """Plan a metric: the cheapest design that a review warns of nothing of.

        Raises PlanError with what would reach the target.
        """
        return solve_metric(self, question, review)

    def designs(
        self, question: MetricToPlan, given: Mapping[str, Any], epsilon: float, devices: int
    ) -> Iterator[Mapping[str, Any]]:
        """Ways to fill in a table of `metrics.toml`; of those that tell as much, the first is
        taken.

        Args:
            question: as asked.
            given: keys that are decided, the usual ones among them; a design does not change them.
            epsilon: for life, in nats.
            devices: that report.
        """
        raise NotImplementedError

    def precision(self, metric: Metric, devices: float) -> float:
        """What the review predicts of the metric's error, in the unit of `asks`; less is better.

        This is the predictor of `rappor metrics check`, not one of the planner's own.
        """
        raise NotImplementedError

    def finding(self, metric: Metric, precision: float) -> str:
        """What an analyst finds at a precision, as words that follow "you"."""
        raise NotImplementedError

    def supposed(self, metric: Metric) -> str:
        """The shape of the data for which the error is predicted, to follow "Supposed:"."""
        raise NotImplementedError


def whole_of(given: Mapping[str, Any], key: str, usual: int) -> int:
    """A whole number above 0 that is given, else the usual one: the metric's reader refuses what
    is none, and names it."""
    value = given.get(key)
    return value if type(value) is int and value > 0 else usual


def length_of(given: Mapping[str, Any], key: str) -> int:
    """Number of entries of a list that is given; 1 of what the metric's reader will refuse."""
    value = given.get(key)
    return len(value) if isinstance(value, list | tuple) and value else 1


def numbers_of_cohorts(devices: int, step: int = 1, most: int = 160) -> list[int]:
    """Numbers of cohorts to choose from, the largest first: multiples of `step` that leave each a
    crowd, quartered.

    devices: that report.  most: cohorts worth having.
    """
    found, number = [], min(devices // CROWD, most) // step * step
    while number >= step:
        found.append(number)
        number = number // 4 // step * step
    return found or [step]


def powers_of_cohorts(devices: int, levels: int = 1) -> list[int]:
    """As `numbers_of_cohorts`, of powers of two. levels: between which devices are divided."""
    most = cohorts_affordable(CROWD * levels, devices)
    return [most >> shift for shift in range(0, 20, 2) if most >> shift]
