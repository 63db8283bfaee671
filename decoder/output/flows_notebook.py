"""Flows in a notebook: the same columns as flows.csv, with names of cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from decoder.flows.tables import FlowDecoding
from decoder.notebook import html_table, to_frame
from decoder.output.flows_content import FlowDisplay, shown_flows
from decoder.output.flows_tables import FlowPlaces, flow_columns, rows_of
from decoder.results.warnings import percent
from decoder.typing import Indices

SHOWN = ("origin", "destination", "km", "estimate", "low", "high", "detected", "flow_share")


@dataclass(frozen=True)
class FlowView:
    """A decoding of flows as a notebook shows it.

    found: the decoding.  display: which flows are shown; the frame has all.
    """

    found: FlowDecoding
    display: FlowDisplay = field(default_factory=FlowDisplay)

    def to_frame(self) -> Any:
        """Every pair as a row of a pandas.DataFrame, with the columns of flows.csv. Raises
        OutputError where pandas is not installed."""
        rows = self._rows(np.arange(self.found.flow.num_sides**2))
        return to_frame(rows, list(rows[0]))

    def _rows(self, pairs: Indices) -> list[dict[str, Any]]:
        places = FlowPlaces(self.found.flow, self.display.layer)
        return rows_of(flow_columns(self.found, places, pairs))

    def _repr_html_(self) -> str:
        """As a notebook shows it: what is detected first."""
        found = self.found
        places = FlowPlaces(found.flow, self.display.layer)
        rows = self._rows(shown_flows(found, places, self.display))
        title = (
            f"Flows of {found.metric}: {found.num_detected:,} detected, "
            f"{percent(found.detected_share)} of people; one of {percent(found.detectable_share)} "
            "is found 8 times in 10"
        )
        cells = [[row[name] for name in SHOWN] for row in rows]
        return html_table(title, SHOWN, cells, found.warnings)
