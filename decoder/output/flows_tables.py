"""The tables of flows and results.json: flows, pairs of zones, cells and distance bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from decoder.files import finite
from decoder.flows.space import cell_meters
from decoder.flows.tables import FlowDecoding
from decoder.inference.intervals import ShareTable
from decoder.options import FlowOptions
from decoder.output.basemap import distance_km, place_name
from decoder.output.density_csv import notes_of
from decoder.typing import Floats, Indices
from rappor_core.grid.box import RESERVED, Point
from rappor_core.metrics.flow import METERS, Flow
from rappor_core.metrics.metric import Metric
from rappor_core.risk import risk_of

Columns = dict[str, list[Any]]

KM_DECIMALS = 3
NOT_DETECTED = "not detected"
GUESS_APART = "flow_share, drawn towards the gravity model, lies outside the interval"
NO_CELLS = "other or no_data"


@dataclass(frozen=True)
class FlowPlaces:
    """Names and centers of the cells and zones of a metric of flows.

    kilometers: (K + 2, K + 2) between centers, NaN where a side is no cell.  cell_km: about the
    width of a cell.  cells, zones: centers by code.  cell_names, zone_names: what each side is
    called, as maps call a cell; "" where nothing is near, and of reserved values.
    """

    flow: Flow
    kilometers: Floats
    cell_km: float
    cells: dict[str, Point]
    zones: dict[str, Point]
    cell_names: tuple[str, ...]
    zone_names: tuple[str, ...]

    @classmethod
    def of(cls, flow: Flow) -> FlowPlaces:
        """The places of a metric; a zone is at the mean of its cells' centers."""
        kilometers, size = cell_meters(flow) / METERS, len(flow.cells)
        nearest = np.where(np.eye(size), np.inf, kilometers).min(axis=1)
        cell_km = float(np.median(nearest)) if np.isfinite(nearest).all() else 1.0
        zone_km = cell_km * (size / len(flow.zones)) ** 0.5
        centers, zone_of = np.array(flow.centers), np.array(flow.zone_of)
        zones = [
            tuple(centers[zone_of == zone].mean(axis=0).tolist()) for zone in range(len(flow.zones))
        ]

        def named(points: Sequence[Point], wide: float) -> tuple[str, ...]:
            return (*(place_name(one, wide) for one in points), *("" for _ in RESERVED))

        on_map = [(north, east - 360 * round(east / 360)) for north, east in flow.centers]
        return cls(
            flow,
            np.pad(kilometers, (0, len(RESERVED)), constant_values=np.nan),
            cell_km,
            dict(zip(flow.cells, on_map, strict=True)),
            dict(zip(flow.zones, zones, strict=True)),
            named(flow.centers, cell_km),
            named(zones, zone_km),
        )


def flow_columns(found: FlowDecoding, places: FlowPlaces, rows: Indices) -> Columns:
    """The columns of flows.csv. rows: indices of pairs, of P = (K + 2)^2."""
    flows, guess = found.flows.at(rows), found.flow_share[rows]
    detected, apart = found.detected[rows], (guess < flows.low) | (guess > flows.high)
    return {
        **_ends(rows, found.flow.side_names, places.cell_names),
        "km": places.kilometers.ravel()[rows].round(KM_DECIMALS).tolist(),
        **_share_columns(flows),
        "detected": detected.tolist(),
        "flow_share": guess.tolist(),
        "gravity": found.gravity[rows].tolist(),
        "note": notes_of(detected, apart, (NOT_DETECTED, GUESS_APART)),
    }


def _ends(pairs: Indices, names: Sequence[str], called: Sequence[str]) -> Columns:
    """Names of both sides of pairs, and what they are called."""
    origins, destinations = (side.tolist() for side in np.divmod(pairs, len(names)))
    return {
        "origin": [names[i] for i in origins],
        "destination": [names[i] for i in destinations],
        "origin_name": [called[i] for i in origins],
        "destination_name": [called[i] for i in destinations],
    }


def zone_columns(found: FlowDecoding, places: FlowPlaces) -> Columns:
    """The columns of zones.csv: every pair of zones, `other` and `no_data` among them."""
    names = (*found.flow.zones, *RESERVED)
    centers = [places.zones.get(name) for name in names]
    return {
        **_ends(np.arange(len(names) ** 2), names, places.zone_names),
        "km": [
            round(distance_km(start, end), KM_DECIMALS) if start and end else None
            for start in centers
            for end in centers
        ],
        **_share_columns(found.zones),
        "detected": found.zones_detected.tolist(),
        "flow_share": found.zone_share.tolist(),
    }


def cell_columns(found: FlowDecoding, places: FlowPlaces) -> Columns:
    """The columns of cells.csv: both margins of each side; of cells who comes less who goes."""
    flow, sides = found.flow, range(found.flow.num_sides)
    centers = [places.cells.get(name, (None, None)) for name in flow.side_names]
    return {
        "cell": list(flow.side_names),
        "name": list(places.cell_names),
        "zone": [(*flow.zones, *RESERVED)[flow.zone_side(side)] for side in sides],
        "latitude": [latitude for latitude, _ in centers],
        "longitude": [longitude for _, longitude in centers],
        **_share_columns(found.origins, "origin_"),
        **_share_columns(found.destinations, "destination_"),
        **{
            name: [*values, *(None for _ in RESERVED)]
            for name, values in _share_columns(found.net, "net_").items()
        },
    }


def band_columns(found: FlowDecoding) -> Columns:
    """The columns of bands.csv: distance bands, of the question about distance alone."""
    edges = found.flow.bands_km
    return {
        "band": band_texts(edges),
        "from_km": [None, 0.0, *edges, None],
        "to_km": [None, *edges, None, None],
        **_share_columns(found.bands),
    }


def band_texts(edges: Sequence[float]) -> list[str]:
    """The name of each band: own cell, kilometers, then sides that are no cells."""
    ends = [f"{edge:g}" for edge in edges]
    between = [f"{low} to {high} km" for low, high in pairwise(ends)]
    return ["own cell", f"up to {ends[0]} km", *between, f"over {ends[-1]} km", NO_CELLS]


def _rows_of(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _share_columns(table: ShareTable, prefix: str = "") -> Columns:
    return {prefix + name: column.tolist() for name, column in table._asdict().items()}


def flows_content(
    found: FlowDecoding, places: FlowPlaces, display: FlowOptions, notes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The contents of results.json, as plain values; of moves, whose matrix is not readable, the
    bands alone.

    Args:
        found: the decoding.
        places: names and centers.
        display: which flows are shown, detected first, then by share; flows.csv has all.
        notes: sentences about the input, which go before the warnings.
    """
    definition = found.definition
    tables: dict[str, list[dict[str, Any]]] = {"flows": [], "zones": [], "cells": []}
    if not found.flow.lag:
        far = np.nan_to_num(places.kilometers.ravel(), nan=-1.0) >= display.min_km
        order = np.lexsort((-found.flow_share, ~found.detected))
        order = order[far[order]]
        shown = order[: int(found.detected[order].sum()) + display.top]
        tables = {
            "flows": _rows_of(flow_columns(found, places, shown)),
            "zones": _rows_of(zone_columns(found, places)),
            "cells": _rows_of(cell_columns(found, places)),
        }
    content = {
        **found.described(),
        "description": definition.get("description"),
        "period": definition.get("period"),
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
        "own_cell": _rows_of(_share_columns(found.own_cell))[0],
        "moved": _rows_of(_share_columns(found.moved))[0],
        "min_km": display.min_km,
        **tables,
        "bands": _rows_of(band_columns(found)),
        "checks": [asdict(check) for check in found.checks],
        "cell_km": places.cell_km,
        "warnings": [*notes, *found.warnings],
    }
    plain: dict[str, Any] = finite(content)
    return plain
