"""How metrics of kind `flow` are planned: the smallest flow that is detected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from decoder.flows.detection import FOUND_OFTEN
from metric_design.flow_kind import best_symbols, least_flow
from metric_design.kind_planner import KindPlanner, length_of, numbers_of_cohorts, whole_of
from metric_design.metric_plan import MetricToPlan
from rappor_core.metrics.flow import COHORT_STEP
from rappor_core.metrics.metric import Metric

OTHER_BANDS = 3  # own cell, beyond the last edge, other


class FlowPlanner(KindPlanner):
    """Mode `once`, with the best number of symbols and as many cohorts as have a crowd."""

    asks = "share"
    usual = {  # noqa: RUF012 (never changed)
        "grid": "quadkey",
        "from": "night 22-6",
        "to": "work 9-17 weekdays",
        "bands_km": [1, 2, 5, 10, 20],
        "period": "month",
        "mode": "once",
    }

    def designs(
        self,
        question: MetricToPlan,  # noqa: ARG002
        given: Mapping[str, Any],
        epsilon: float,
        devices: int,
    ) -> Iterator[Mapping[str, Any]]:
        """One number of symbols; many cohorts, which tell flows best, before few."""
        each = epsilon / whole_of(given, "max_reports", 1)
        bands = length_of(given, "bands_km") + OTHER_BANDS
        for symbols in sorted({best_symbols(each, 2), best_symbols(each, bands)}):
            for cohorts in numbers_of_cohorts(devices, COHORT_STEP):
                yield {"epsilon": each, "num_symbols": symbols, "num_cohorts": cohorts}

    def precision(self, metric: Metric, devices: float) -> float:
        """The smallest share of a flow that is detected."""
        return least_flow(metric, devices)

    def finding(self, metric: Metric, precision: float) -> str:
        """The smallest flow."""
        cells = len(metric.details.cells)
        return (
            f"tell a flow of {100 * precision:.3g} % of the devices, of those between {cells:,} "
            f"cells, from zero {10 * FOUND_OFTEN:.0f} times in 10"
        )

    def supposed(self, metric: Metric) -> str:  # noqa: ARG002
        """A flow that nothing else explains."""
        return (
            "the flow is detected by its own question alone, as one that distance does not "
            "explain; of five such flows at once simulations detected about 7 in 10"
        )


PLANNER = FlowPlanner()
