"""The tables for flows and results.json: flows, zone pairs, cells and distance bands."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from typing import Any, Self

import numpy as np

from decoder.files import finite
from decoder.flows.space import cell_meters
from decoder.flows.tables import FlowDecoding
from decoder.inference.intervals import ShareTable
from decoder.options import FlowOptions
from decoder.output.basemap import BaseLayer, distance_km, place_name
from decoder.output.density_csv import notes_of
from decoder.output.flows_view import flow_line
from decoder.tables.table import SHARE_INTERVAL, Column, ColumnType, Table, TableSchema
from decoder.typing import Floats, Indices
from rappor_core.grid.box import RESERVED, Point
from rappor_core.metrics.flow import METERS, Flow
from rappor_core.metrics.metric import Metric
from rappor_core.risk import risk_of

Columns = dict[str, list[Any]]

_TEXT, _SHARE, _NUMBER = ColumnType.TEXT, ColumnType.SHARE, ColumnType.NUMBER
_SHARES = (
    Column("estimate", _SHARE, "Unbiased share of people.", "of people", shown=True),
    *SHARE_INTERVAL,
)
_GUESS = Column("flow_share", _SHARE, "One best-fit matrix, positive, of sum 1.")


def _sides(what: str) -> tuple[Column, ...]:
    return (
        Column("origin", _TEXT, f"The {what} where people are first.", "from", shown=True),
        Column("destination", _TEXT, f"The {what} where people are then.", "to", shown=True),
        Column("origin_name", _TEXT, "What the origin is called."),
        Column("destination_name", _TEXT, "What the destination is called."),
        Column("km", _NUMBER, "Distance between the centers.", unit="km", shown=True),
    )


def _shares(prefix: str, of: str) -> tuple[Column, ...]:
    return (
        Column(f"{prefix}estimate", _SHARE, f"Unbiased share of {of}."),
        Column(f"{prefix}std_error", _SHARE, "Its standard error."),
        Column(f"{prefix}low", _SHARE, "Lower end of its interval."),
        Column(f"{prefix}high", _SHARE, "Upper end of its interval."),
    )


_DETECTED = Column("detected", ColumnType.FLAG, "Whether the flow is detected.")
FLOWS = TableSchema(
    "flows",
    "Flows between cells",
    (
        *_sides("cell"),
        *_SHARES,
        _DETECTED,
        _GUESS,
        Column("gravity", _SHARE, "What the gravity model alone expects."),
        Column("note", _TEXT, "What a reader should know of the row."),
    ),
)
ZONES = TableSchema(
    "zones",
    "Flows between zones",
    (*_sides("zone"), *_SHARES, _DETECTED, _GUESS),
)
CELLS = TableSchema(
    "cells",
    "Cells",
    (
        Column("cell", _TEXT, "The cell, or `other` and `no_data`.", shown=True),
        Column("name", _TEXT, "What the cell is called.", shown=True),
        Column("zone", _TEXT, "The zone of the cell."),
        Column("latitude", _NUMBER, "Of the center.", unit="degrees"),
        Column("longitude", _NUMBER, "Of the center.", unit="degrees"),
        *_shares("origin_", "people who begin here"),
        *_shares("destination_", "people who end here"),
        *_shares("net_", "people who come, less those who go"),
    ),
)
BANDS = TableSchema(
    "bands",
    "Distance between the two cells",
    (
        Column("band", _TEXT, "The distance band.", "distance", shown=True),
        Column("from_km", _NUMBER, "Its lower edge; empty where it has none.", unit="km"),
        Column("to_km", _NUMBER, "Its upper edge; empty where it has none.", unit="km"),
        *_SHARES,
    ),
)
KM_DECIMALS = 3
NOT_DETECTED = "not detected"
GUESS_APART = "flow_share, drawn towards the gravity model, lies outside the interval"
NO_CELLS = "other or no_data"


@dataclass(frozen=True)
class FlowPlaces:
    """The names and centers of a flow metric's cells and zones."""

    base: BaseLayer
    kilometers: Floats  # (K + 2, K + 2) between centers, NaN if a side is not a cell
    cell_km: float  # The approximate width of a cell
    cells: dict[str, Point]  # Centers by code
    zones: dict[str, Point]  # Centers by code
    cell_names: tuple[str, ...]  # Names of the sides on maps; "" if reserved or if no place is near
    zone_names: tuple[str, ...]

    @classmethod
    def of(cls, flow: Flow, base: BaseLayer) -> Self:
        """Return the places of a metric; a zone is at the mean of its cells' centers."""
        kilometers, size = cell_meters(flow) / METERS, len(flow.cells)
        nearest = np.where(np.eye(size), np.inf, kilometers).min(axis=1)
        cell_km = float(np.median(nearest)) if np.isfinite(nearest).all() else 1.0
        zone_km = cell_km * (size / len(flow.zones)) ** 0.5
        centers, zone_of = np.array(flow.centers), np.array(flow.zone_of)
        zones = [tuple(centers[zone_of == z].mean(axis=0).tolist()) for z in np.unique(zone_of)]

        def named(points: Sequence[Point], wide: float) -> tuple[str, ...]:
            return (*(place_name(point, base, wide) for point in points), *("" for _ in RESERVED))

        on_map = [(north, east - 360 * round(east / 360)) for north, east in flow.centers]
        return cls(
            base,
            np.pad(kilometers, (0, len(RESERVED)), constant_values=np.nan),
            cell_km,
            dict(zip(flow.cells, on_map, strict=True)),
            dict(zip(flow.zones, zones, strict=True)),
            named(flow.centers, cell_km),
            named(zones, zone_km),
        )


def flow_tables(decoding: FlowDecoding, places: FlowPlaces) -> tuple[Table, Table, Table, Table]:
    """Return the tables of flows (with map lines), zone pairs, cells, and distance bands."""
    flow, zones = decoding.flow, (*decoding.flow.zones, *RESERVED)
    flows = flow_columns(decoding, places, np.arange(flow.num_sides**2))
    ends = zip(flows["origin"], flows["destination"], strict=True)
    lines = [flow_line(*(places.cells[side] for side in pair))
             if {*pair} <= places.cells.keys() else None for pair in ends]  # fmt: skip
    centers = [places.zones.get(name) for name in zones]
    of_zones: Columns = {
        **_ends(np.arange(len(zones) ** 2), zones, places.zone_names),
        "km": [
            round(distance_km(start, end), KM_DECIMALS) if start and end else None
            for start, end in product(centers, repeat=2)
        ],
        **_share_columns(decoding.zones),
        "detected": decoding.zones_detected.tolist(),
        "flow_share": decoding.zone_share.tolist(),
    }
    of_sides = [places.cells.get(name, (None, None)) for name in flow.side_names]
    of_cells: Columns = {
        "cell": list(flow.side_names),
        "name": list(places.cell_names),
        "zone": [zones[flow.zone_side(side)] for side in range(flow.num_sides)],
        "latitude": [latitude for latitude, _ in of_sides],
        "longitude": [longitude for _, longitude in of_sides],
        **_share_columns(decoding.origins, "origin_"),
        **_share_columns(decoding.destinations, "destination_"),
        **{
            name: [*values, *(None for _ in RESERVED)]
            for name, values in _share_columns(decoding.net, "net_").items()
        },
    }
    if flow.lag:  # the matrix of moves is too imprecise to be useful
        lines = []
        flows, of_zones, of_cells = (
            {key: [] for key in columns} for columns in (flows, of_zones, of_cells)
        )
    edges = flow.bands_km
    of_bands = {
        "band": band_texts(edges),
        "from_km": [None, 0.0, *edges, None],
        "to_km": [None, *edges, None, None],
        **_share_columns(decoding.bands),
    }
    return (
        replace(FLOWS.table(flows), geometries=lines),
        ZONES.table(of_zones),
        CELLS.table(of_cells),
        BANDS.table(of_bands),
    )


def flow_columns(decoding: FlowDecoding, places: FlowPlaces, rows: Indices) -> Columns:
    """Return the columns of flows.csv for the given pair indices, out of P = (K + 2)^2."""
    flows, guess = decoding.flows.at(rows), decoding.flow_share[rows]
    detected, apart = decoding.detected[rows], (guess < flows.low) | (guess > flows.high)
    return {
        **_ends(rows, decoding.flow.side_names, places.cell_names),
        "km": places.kilometers.ravel()[rows].round(KM_DECIMALS).tolist(),
        **_share_columns(flows),
        "detected": detected.tolist(),
        "flow_share": guess.tolist(),
        "gravity": decoding.gravity[rows].tolist(),
        "note": notes_of(detected, apart, (NOT_DETECTED, GUESS_APART)),
    }


def _ends(pairs: Indices, names: Sequence[str], called: Sequence[str]) -> Columns:
    sides = dict(zip(("origin", "destination"), np.divmod(pairs, len(names)), strict=True))
    return {side: [names[i] for i in at] for side, at in sides.items()} | {
        f"{side}_name": [called[i] for i in at] for side, at in sides.items()
    }


def band_texts(edges: Sequence[float]) -> list[str]:
    """Return the band names: own cell, ranges of kilometers, and sides without a cell."""
    ends = [f"{edge:g}" for edge in edges]
    between = [f"{low} to {high} km" for low, high in pairwise(ends)]
    return ["own cell", f"up to {ends[0]} km", *between, f"over {ends[-1]} km", NO_CELLS]


def _share_columns(table: ShareTable, prefix: str = "") -> Columns:
    return {prefix + name: column.tolist() for name, column in table._asdict().items()}


def flows_content(
    decoding: FlowDecoding,
    places: FlowPlaces,
    tables: Sequence[Table],
    display: FlowOptions,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the contents of results.json, as plain values.

    Args:
        decoding: The decoded flows.
        places: The names and centers of cells and zones.
        tables: The tables of the decoding.
        display: The options to select flows (detected first, then by share); flows.csv has all.
        notes: Sentences about the input, which precede the warnings.
    """
    definition, base = decoding.definition, places.base
    far = np.nan_to_num(places.kilometers.ravel(), nan=-1.0) >= display.min_km
    order = np.lexsort((-decoding.flow_share, ~decoding.detected))
    order = order[far[order]]
    rows = order[: int(decoding.detected[order].sum()) + display.top]
    flows = [] if decoding.flow.lag else FLOWS.table(flow_columns(decoding, places, rows)).records()
    content = {
        **decoding.described(),
        "description": definition.get("description"),
        "period": definition.get("period"),
        "epsilon": decoding.params.epsilon_one,
        "max_reports": definition.get("max_reports"),
        "for_life": risk_of(Metric.from_dict(definition)).for_life,
        "flow": decoding.flow.to_dict(),
        "level": decoding.level,
        "alpha": decoding.alpha,
        "repetition": decoding.repetition,
        "tau": decoding.tau,
        "departure_evidence": decoding.departure_evidence,
        "num_detected": decoding.num_detected,
        "detected_share": decoding.detected_share,
        "detectable_share": decoding.detectable_share,
        "forged_shift": decoding.forged_shift,
        "own_cell": {name: float(part[0]) for name, part in decoding.own_cell._asdict().items()},
        "moved": {name: float(part[0]) for name, part in decoding.moved._asdict().items()},
        "min_km": display.min_km,
        "flows": flows,
        **{table.name: table.records() for table in tables[1:]},
        "checks": [asdict(check) for check in decoding.checks],
        "cell_km": places.cell_km,
        "base": {"lines": base.lines, "areas": base.areas, "points": base.points},
        "warnings": [*notes, *decoding.warnings],
    }
    plain: dict[str, Any] = finite(content)
    return plain
