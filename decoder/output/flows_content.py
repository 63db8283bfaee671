"""results.json of flows: what a page and a terminal show of a `FlowDecoding`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from decoder.files import finite
from decoder.flows.tables import FlowDecoding
from decoder.output.base_layer import BaseLayer
from decoder.output.flows_tables import (
    FlowPlaces,
    band_columns,
    cell_columns,
    flow_columns,
    one_share,
    rows_of,
    zone_columns,
)
from decoder.typing import Indices
from rappor_core.metrics.metric import Metric
from rappor_core.risk import risk_of

MIN_KM, TOP = 0.0, 200  # of `FlowDisplay`, where nothing else is asked for


@dataclass(frozen=True)
class FlowDisplay:
    """Which flows are shown.

    min_km: the least distance between two centres; own cells are 0 km apart.  top: how many flows
    that are not detected are shown besides those that are, the largest guesses.  base: the
    user's districts or stations.
    """

    min_km: float = MIN_KM
    top: int = TOP
    base: BaseLayer | None = None

    @property
    def layer(self) -> BaseLayer:
        """The user's districts or stations, none if no file was given."""
        return self.base or BaseLayer()


def shown_flows(found: FlowDecoding, places: FlowPlaces, display: FlowDisplay) -> Indices:
    """Indices of the pairs of cells that are shown: detected first, then by share."""
    far = np.nan_to_num(places.kilometres.ravel(), nan=-1.0) >= display.min_km
    order = np.lexsort((-found.flow_share, ~found.detected))
    order = order[far[order]]
    return np.asarray(order[: int(found.detected[order].sum()) + display.top])


def flows_content(
    found: FlowDecoding,
    display: FlowDisplay | None = None,
    places: FlowPlaces | None = None,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The contents of results.json, as plain values (NaN and infinity as null).

    Args:
        found: the decoding.
        display: which flows are shown; flows.csv has all.
        places: names and centres, made if None.
        notes: sentences about the input, which go before the warnings.

    Returns:
        The settings, the flows that are shown, zones, cells, bands and checks.
    """
    display = display or FlowDisplay()
    places = places or FlowPlaces(found.flow, display.layer)
    definition = found.definition
    content = {
        "metric": found.metric,
        "params_id": found.params_id,
        "description": definition.get("description"),
        "period": definition.get("period"),
        "first_day": found.first_day and found.first_day.isoformat(),
        "last_day": found.last_day and found.last_day.isoformat(),
        "num_reports": found.num_reports,
        "epsilon": found.params.epsilon_one,
        "max_reports": definition.get("max_reports"),
        "for_life": risk_of(Metric.from_dict(definition)).for_life,
        "flow": found.flow.to_dict(),
        "level": found.level,
        "alpha": found.alpha,
        "repetition": found.repetition,
        "tau": found.tau,
        "departure_evidence": found.departure_evidence,
        "num_detected": found.num_detected,
        "detected_share": found.detected_share,
        "detectable_share": found.detectable_share,
        "forged_shift": found.forged_shift,
        "own_cell": one_share(found.own_cell),
        "moved": one_share(found.moved),
        "min_km": display.min_km,
        **_tables(found, display, places),
        "checks": [asdict(check) for check in found.checks],
        "cell_km": places.cell_km,
        "base": {"lines": display.layer.lines, "areas": display.layer.areas,
                 "points": display.layer.points},
        "warnings": [*notes, *found.warnings],
    }  # fmt: skip
    plain: dict[str, Any] = finite(content)
    return plain


def _tables(
    found: FlowDecoding, display: FlowDisplay, places: FlowPlaces
) -> dict[str, list[dict[str, Any]]]:
    """Rows by table; of moves the bands alone, since their matrix is not readable."""
    bands = {"bands": rows_of(band_columns(found))}
    if found.flow.lag:
        return {"flows": [], "zones": [], "cells": [], **bands}
    return {
        "flows": rows_of(flow_columns(found, places, shown_flows(found, places, display))),
        "zones": rows_of(zone_columns(found, places)),
        "cells": rows_of(cell_columns(found, places)),
        **bands,
    }
