"""How metrics of kind `location` are planned: how far a map is off."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from decoder.density.modes import modes
from decoder.grid_cells import num_cells
from metric_design.kind_planner import KindPlanner, length_of, powers_of_cohorts
from metric_design.map_findings import map_error
from metric_design.metric_plan import MetricToPlan
from metric_design.noise import rounded_down
from rappor_core.metrics.metric import Metric


class LocationPlanner(KindPlanner):
    """The modes that spend a budget on maps of so many periods."""

    extra_keys = frozenset({"periods"})
    usual = {"grid": "quadkey"}  # noqa: RUF012 (never changed)

    def designs(
        self,
        question: MetricToPlan,
        given: Mapping[str, Any],
        epsilon: float,
        devices: int,
    ) -> Iterator[Mapping[str, Any]]:
        """Every mode that is compared by the review, with several numbers of cohorts."""
        levels = length_of(given, "levels")
        budget = rounded_down(epsilon)
        for cohorts in powers_of_cohorts(devices, levels):
            for mode in modes(budget, question.periods, cohorts, "no_data" in given):
                yield tomllib.loads(mode.keys)

    def precision(self, metric: Metric, devices: float) -> float:
        """Total variation of the map of one slot and period, of the finest level."""
        return map_error(metric, devices).total_variation

    def finding(self, metric: Metric, precision: float) -> str:
        """The map."""
        location = metric.location
        assert location is not None  # noqa: S101 (of this kind)
        cells = num_cells(location.grid, location.grid.finest)
        what = f"slot and {metric.period}" if len(location.slots) > 1 else metric.period
        return (
            f"tell a map of one {what}, of {cells:,} cells, that is {precision:.2f} off in total "
            "variation"
        )

    def supposed(self, metric: Metric) -> str:
        """The reference map."""
        return (
            "the crowd is as uneven as the reference map of docs/method.md, of which a map without "
            f"a report is {map_error(metric, 1).even:.2f} off; the level is rough, maps of cities "
            "come out up to twice as far off"
        )


PLANNER = LocationPlanner()
