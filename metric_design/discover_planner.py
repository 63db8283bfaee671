"""How metrics of kind `discover` are planned: the share of a string that is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from decoder.discovery.discovery import NEARLY_ALL, DiscoverOptions, named_shares
from decoder.model.noise import BitNoise
from metric_design.kind_planner import KindPlanner, numbers_of_cohorts, whole_of
from metric_design.metric_plan import MetricToPlan
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.metrics.discover_kind import NUM_COHORTS
from rappor_core.metrics.metric import Metric

USUAL_LEVELS = 4


class DiscoverPlanner(KindPlanner):
    """One report for life, sent as the permanent response."""

    asks = "share"
    usual = {"max_reports": 1, "max_memoized_values": 2, "fallback": "other"}  # noqa: RUF012

    def designs(
        self,
        question: MetricToPlan,  # noqa: ARG002
        given: Mapping[str, Any],
        epsilon: float,
        devices: int,
    ) -> Iterator[Mapping[str, Any]]:
        """As many cohorts as have a crowd."""
        step = whole_of(given, "num_levels", USUAL_LEVELS) + 1
        for cohorts in numbers_of_cohorts(devices, step, NUM_COHORTS):
            yield {"epsilon_infinity": epsilon, "num_cohorts": cohorts}

    def precision(self, metric: Metric, devices: float) -> float:
        """The share of which nearly all strings are named, as the decoder predicts it."""
        groups: PrefixGroups = metric.details
        noise = BitNoise.of(metric.params.mechanism)
        repeats = float(metric.max_reports_per_period)
        return named_shares(noise, groups, DiscoverOptions(), devices * repeats, repeats).most

    def finding(self, metric: Metric, precision: float) -> str:  # noqa: ARG002
        """The smallest share."""
        return (
            f"find a string that {100 * precision:.3g} % of the devices hold, without a list, "
            f"{20 * NEARLY_ALL:.0f} times in 20"
        )

    def supposed(self, metric: Metric) -> str:
        """What is hashed of a string."""
        code = metric.details.code.name
        return (
            f"the code '{code}' makes the string short enough to be hashed in "
            f"{metric.details.code_bits} bits, and no other string begins as it does"
        )


PLANNER = DiscoverPlanner()
