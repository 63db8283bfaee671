"""The tables of flows and results.json: flows, pairs of zones, cells and distance bands.

Sides are named as `Flow.side_names` has them; a side that is no cell has no place and no distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from decoder.files import finite
from decoder.flows.space import cell_meters
from decoder.flows.tables import FlowDecoding
from decoder.inference.intervals import ShareTable
from decoder.options import FlowOptions
from decoder.output.basemap import BaseLayer, distance_km, place_name
from decoder.output.density_text import notes_of
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

    base: the user's own districts and stations, whose names come first.
    """

    flow: Flow
    base: BaseLayer

    @cached_property
    def centers(self) -> tuple[Point, ...]:
        """Latitude and longitude of each cell's center, the longitude from -180 to 180."""
        return tuple((north, east - 360 * round(east / 360)) for north, east in self.flow.centers)

    @property
    def points(self) -> dict[str, dict[str, Point]]:
        """The centers by the name of a cell and of a zone, for the tables `flows` and `zones`."""
        return {
            "flows": dict(zip(self.flow.cells, self.centers, strict=True)),
            "zones": dict(zip(self.flow.zones, self.zone_centers, strict=True)),
        }

    @cached_property
    def cell_names(self) -> tuple[str, ...]:
        """What each side is called, as maps call a cell; "" where nothing is near."""
        return self._named(self.flow.centers, self.cell_km)

    @cached_property
    def zone_centers(self) -> tuple[Point, ...]:
        """Latitude and longitude of each zone: the mean of its cells' centers."""
        centers, zones = np.array(self.flow.centers), np.array(self.flow.zone_of)
        means = [centers[zones == zone].mean(axis=0) for zone in range(len(self.flow.zones))]
        return tuple((float(latitude), float(longitude)) for latitude, longitude in means)

    @cached_property
    def zone_names(self) -> tuple[str, ...]:
        """What each zone is called, and `other` and `no_data` after them."""
        wide = self.cell_km * (len(self.flow.cells) / len(self.flow.zones)) ** 0.5
        return self._named(self.zone_centers, wide)

    @cached_property
    def cell_km(self) -> float:
        """About the width of a cell: the median distance to the nearest other center, km."""
        meters = self.kilometers[: len(self.flow.cells), : len(self.flow.cells)].copy()
        np.fill_diagonal(meters, np.inf)
        nearest = meters.min(axis=1)
        return float(np.median(nearest)) if np.isfinite(nearest).all() else 1.0

    @cached_property
    def kilometers(self) -> Floats:
        """(K + 2, K + 2) between centers; NaN where a side is no cell."""
        apart = ((0, len(RESERVED)),) * 2
        return np.pad(cell_meters(self.flow) / METERS, apart, constant_values=np.nan)

    def _named(self, centers: Sequence[Point], wide: float) -> tuple[str, ...]:
        named = [place_name(center, self.base, wide) for center in centers]
        return (*named, *("" for _ in RESERVED))


def flow_columns(found: FlowDecoding, places: FlowPlaces, rows: Indices) -> Columns:
    """The columns of flows.csv for some pairs.

    Args:
        found: the decoding.
        places: of its metric.
        rows: indices of pairs, of P = (K + 2)^2.

    Returns:
        A list of plain values for each column; what is not known is NaN.
    """
    guess, flows = found.flow_share, found.flows
    apart = (guess < flows.low) | (guess > flows.high)  # a guess outside of the interval
    notes = notes_of(found.detected, apart, (NOT_DETECTED, GUESS_APART))
    return {
        **_ends(rows, found.flow.side_names, places.cell_names),
        "km": places.kilometers.ravel()[rows].round(KM_DECIMALS).tolist(),
        **_share_columns(found.flows.at(rows)),
        "detected": found.detected[rows].tolist(),
        "flow_share": found.flow_share[rows].tolist(),
        "gravity": found.gravity[rows].tolist(),
        "note": [notes[i] for i in rows],
        "of_origin": found.of_origin.estimate[rows].tolist(),
        "of_origin_low": found.of_origin.low[rows].tolist(),
        "of_origin_high": found.of_origin.high[rows].tolist(),
    }


def _ends(pairs: Indices, names: Sequence[str], called: Sequence[str]) -> Columns:
    """Names of both sides of pairs, and what they are called."""
    sides = dict(zip(("origin", "destination"), np.divmod(pairs, len(names)), strict=True))
    return {
        **{side: [names[i] for i in found] for side, found in sides.items()},
        **{f"{side}_name": [called[i] for i in found] for side, found in sides.items()},
    }


def zone_columns(found: FlowDecoding, places: FlowPlaces) -> Columns:
    """The columns of zones.csv: every pair of zones, `other` and `no_data` among them."""
    names, centers = (*found.flow.zones, *RESERVED), places.zone_centers
    pairs = np.arange(len(names) ** 2)
    origins, destinations = np.divmod(pairs, len(names))
    return {
        **_ends(pairs, names, places.zone_names),
        "km": [
            round(distance_km(centers[o], centers[d]), KM_DECIMALS)
            if max(o, d) < len(centers)
            else None
            for o, d in zip(origins.tolist(), destinations.tolist(), strict=True)
        ],
        **_share_columns(found.zones),
        "detected": found.zones_detected.tolist(),
        "flow_share": found.zone_share.tolist(),
    }


def cell_columns(found: FlowDecoding, places: FlowPlaces) -> Columns:
    """The columns of cells.csv: both margins of each side; of cells who stays, and who comes less
    who goes."""
    flow, cells = found.flow, len(found.flow.cells)
    sides = np.arange(flow.num_sides)
    zones = [flow.zone_side(side) for side in sides.tolist()]
    centers: list[tuple[float | None, float | None]] = [*places.centers, *((None, None),) * 2]
    return {
        "cell": list(flow.side_names),
        "name": list(places.cell_names),
        "zone": [(*flow.zones, *RESERVED)[zone] for zone in zones],
        "latitude": [latitude for latitude, _ in centers],
        "longitude": [longitude for _, longitude in centers],
        **_share_columns(found.origins, "origin_"),
        **_share_columns(found.destinations, "destination_"),
        **_of_cells(found.of_origin.at(sides * (flow.num_sides + 1)), cells, "own_"),
        **_of_cells(found.net, cells, "net_"),
    }


def band_columns(found: FlowDecoding) -> Columns:
    """The columns of bands.csv: distance bands, of the question about distance alone."""
    edges = found.flow.bands_km
    lower = [None, 0.0, *edges, None]
    upper = [None, *edges, None, None]
    return {
        "band": band_texts(edges),
        "from_km": lower,
        "to_km": upper,
        **_share_columns(found.bands),
    }


def band_texts(edges: Sequence[float]) -> list[str]:
    """The name of each band: own cell, kilometers, then sides that are no cells."""
    ends = [f"{edge:g}" for edge in edges]
    between = [
        f"up to {high} km" if low is None else f"{low} to {high} km"
        for low, high in zip([None, *ends], ends, strict=False)
    ]
    return ["own cell", *between, f"over {ends[-1]} km", NO_CELLS]


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Columns as rows, each a dict."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def one_share(table: ShareTable) -> dict[str, float]:
    """The first row of a table by its columns."""
    return {name: values[0] for name, values in _share_columns(table).items()}


def _share_columns(table: ShareTable, prefix: str = "") -> Columns:
    names = ("estimate", "std_error", "low", "high")
    return {prefix + name: getattr(table, name).tolist() for name in names}


def _of_cells(table: ShareTable, cells: int, prefix: str) -> Columns:
    """Share columns of cells; None for the sides that are none."""
    inside = _share_columns(table.at(np.arange(cells)), prefix)
    return {name: [*values, *(None for _ in RESERVED)] for name, values in inside.items()}


def shown_flows(found: FlowDecoding, places: FlowPlaces, display: FlowOptions) -> Indices:
    """Indices of the pairs of cells that are shown: detected first, then by share."""
    far = np.nan_to_num(places.kilometers.ravel(), nan=-1.0) >= display.min_km
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
