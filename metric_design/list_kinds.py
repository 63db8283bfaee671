"""The kinds whose values are looked for in a list, before they ship: strings, categories,
booleans."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from metric_design.kinds import KindDesign

if TYPE_CHECKING:
    from metric_design.kind_planner import KindPlanner


class ListDesign(KindDesign):
    """A metric of strings, of categories or of a boolean."""

    name = "string"

    def planner(self) -> KindPlanner:
        """Return the planner of listed values, which predicts the smallest detected share."""
        planner: KindPlanner = import_module("metric_design.list_planner").PLANNER
        return planner


KIND = ListDesign()
