"""results.json of flows: what a page and a terminal show of a `FlowDecoding`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from decoder.files import finite
from decoder.flows.tables import FlowDecoding
from decoder.options import FlowOptions
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


def shown_flows(found: FlowDecoding, places: FlowPlaces, display: FlowOptions) -> Indices:
    """Indices of the pairs of cells that are shown: detected first, then by share."""
    far = np.nan_to_num(places.kilometres.ravel(), nan=-1.0) >= display.min_km
    order = np.lexsort((-found.flow_share, ~found.detected))
    order = order[far[order]]
    return np.asarray(order[: int(found.detected[order].sum()) + display.top])


def flows_content(
    found: FlowDecoding,
    places: FlowPlaces,
    display: FlowOptions | None = None,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The contents of results.json, as plain values (NaN and infinity as null).

    Args:
        found: the decoding.
        places: names and centers.
        display: which flows are shown; flows.csv has all.
        notes: sentences about the input, which go before the warnings.

    Returns:
        The settings, the flows that are shown, zones, cells, bands and checks.
    """
    display = display or FlowOptions()
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
        **_tables(found, places, display),
        "checks": [asdict(check) for check in found.checks],
        "cell_km": places.cell_km,
        "base": {"lines": places.base.lines, "areas": places.base.areas,
                 "points": places.base.points},
        "warnings": [*notes, *found.warnings],
    }  # fmt: skip
    plain: dict[str, Any] = finite(content)
    return plain


def _tables(
    found: FlowDecoding, places: FlowPlaces, display: FlowOptions
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
