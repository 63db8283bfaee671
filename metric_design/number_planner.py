"""How metrics of kind `number` are planned: means, and curves of shares above edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from metric_design.kind_planner import KindPlanner
from metric_design.metric_plan import MetricToPlan
from metric_design.noise import rounded_down
from metric_design.number_kind import Z, curve_error, mean_error, of_the_range
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number_kind import number_metric

STRATA = 8, 4, 16, 32  # of a mean
SYMBOLS = 8, 6, 4, 3, 2  # of mode `once`
FEWER = 2, 1  # cohorts of each question, where the usual four are too many
SECOND_DIAL = 0.9  # epsilon_one over epsilon_infinity


class NumberPlanner(KindPlanner):
    """Mode `once` with a few symbols, and mode `memo`."""

    usual = {"unit": "units", "of_period": "last", "none": "apart"}  # noqa: RUF012 (never changed)

    def designs(
        self,
        question: MetricToPlan,  # noqa: ARG002
        given: Mapping[str, Any],
        epsilon: float,
        devices: int,  # noqa: ARG002
    ) -> Iterator[Mapping[str, Any]]:
        """Symbols, strata and cohorts."""
        half = rounded_down(epsilon / 2)  # two answers for life
        dials = {"epsilon_infinity": half, "epsilon_one": rounded_down(SECOND_DIAL * half)}
        ways: list[dict[str, Any]] = [
            {"mode": "once", "num_symbols": symbols, "epsilon": epsilon} for symbols in SYMBOLS
        ]
        for way in (*ways, {"mode": "memo", **dials}):
            for edges in _edges(given):
                design = {**way, **edges}
                yield design
                for number in _fewer_cohorts(design | dict(given)):
                    yield design | {"num_cohorts": number}

    def precision(self, metric: Metric, devices: float) -> float:
        """Half-width of the 95 % interval: of a mean in its unit or as a factor, of a share."""
        number, reports = metric.details, devices / metric.details.spread
        if number.ask == "mean":
            return of_the_range(metric, Z * mean_error(metric, reports, 0.5))
        return Z * curve_error(metric, reports)

    def finding(self, metric: Metric, precision: float) -> str:
        """The mean, or the shares above the edges."""
        number = metric.details
        span = f"numbers from {number.edges[0]:g} to {number.edges[-1]:g} {number.unit}"
        if number.ask == "edges":
            return (
                f"tell the share of devices at or above each of {len(number.edges)} edges, of "
                f"{span}, to {100 * precision:.3g} points either way, 19 times in 20"
            )
        if number.scale == "log":
            return (
                f"tell the geometric mean of {span} to a factor of {precision:.4g} either way, "
                "19 times in 20"
            )
        return (
            f"tell the mean of {span} to {precision:.3g} {number.unit} either way, 19 times in 20"
        )

    def supposed(self, metric: Metric) -> str:
        """The worst shapes."""
        if metric.details.ask == "edges":
            return "half of the devices are above the edge, where its share is known worst"
        return (
            "all devices have data, the mean is in the middle of the range, and numbers lie where "
            "they tell least of it; 1.4 times as far where 30 % have no data"
        )


def _edges(given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The edges: as they are given; of a mean without `bins` with several numbers of them."""
    edges = given.get("edges")
    if given.get("ask") != "mean" or not isinstance(edges, Mapping) or "bins" in edges:
        yield {}
        return
    for strata in STRATA:
        yield {"edges": {**edges, "bins": strata}}


def _fewer_cohorts(table: Mapping[str, Any]) -> Iterator[int]:
    """Fewer cohorts than the usual ones; none of a table that is no metric."""
    with suppress(MetricsFileError):
        metric = number_metric("planned", table)
        step = metric.rules.cohort_step(metric)
        yield from (each * step for each in FEWER if each * step < metric.params.num_cohorts)


PLANNER = NumberPlanner()
