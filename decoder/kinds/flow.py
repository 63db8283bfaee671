"""The kind flow: flows of people between usual cells."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from decoder.flows.decoding import decode_flows, flow_of
from decoder.flows.tables import band_changes, band_shares
from decoder.formats.density_inputs import read_known_flows
from decoder.kinds.interface import KindDecoder
from decoder.kinds.over_time import SeriesFound, series_result
from decoder.kinds.result import RESULTS, PageParts, Question, Result, StoredResult, manifest_of
from decoder.output.flows_tables import (
    FlowPlaces,
    band_columns,
    band_texts,
    cell_columns,
    flow_columns,
    flows_content,
    zone_columns,
)
from decoder.output.flows_view import flow_line, flows_view, placed_flows
from decoder.sources.windows import sum_of
from decoder.tables.format import count, days, percent
from decoder.tables.geo_files import write_geojson
from decoder.tables.paging import TableQuery
from decoder.tables.table import Column, ColumnType, Table, TableSchema
from rappor_core.aggregate import Aggregate
from rappor_core.text import counted

_TEXT, _SHARE, _NUMBER = ColumnType.TEXT, ColumnType.SHARE, ColumnType.NUMBER
_SHARES = (
    Column("estimate", _SHARE, "Unbiased share of people.", "of people", shown=True),
    Column("std_error", _SHARE, "Standard error of `estimate`."),
    Column("low", _SHARE, "Lower end of the interval.", shown=True),
    Column("high", _SHARE, "Upper end of the interval.", shown=True),
)
_GUESS = Column("flow_share", _SHARE, "One guess at the whole matrix, positive, of sum 1.")


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
MAX_LISTED = 20  # flows in a summary
_PRINTED = ("origin", "origin_name", "destination", "destination_name", "km", "estimate", "low",
            "high")  # fmt: skip
APART = "two different cells"


class Flows(KindDecoder):
    """The decoder of flows between usual cells."""

    title = "Flows"
    purpose = "how many people of one cell are usually in another, with intervals"
    members = frozenset({"flows", "known"})
    operations = ("decode", "series", "compare")
    schemas = (FLOWS, ZONES, CELLS, BANDS)
    published = (RESULTS, "flows.csv")
    command = "flows"
    no_candidates = "a metric of flows has cells, not candidates"

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Decode the sum of the counts; see `KindDecoder.decode`."""
        window, asked, notes = sum_of(counts), question.flows, list[str]()
        flow = flow_of(window)
        known = read_known_flows(asked.known, flow, notes.append) if asked.known else None
        for text in notes:
            question.note(text)
        places = FlowPlaces.of(flow)
        found = decode_flows(window, question.options, known, question.progress)
        content = flows_content(found, places, asked, tuple(notes))
        metric = content["metric"]
        flows = flow_columns(found, places, np.arange(flow.num_sides**2))
        zones, cells = zone_columns(found, places), cell_columns(found, places)
        if flow.lag:  # the matrix of moves is not readable
            flows, zones, cells = ({name: [] for name in one} for one in (flows, zones, cells))
        ends = zip(flows["origin"], flows["destination"], strict=True)
        lines = [
            flow_line(places.cells[start], places.cells[end])
            if {start, end} <= places.cells.keys()
            else None
            for start, end in ends
        ]
        return Result(
            content,
            _summary(content),
            (
                replace(FLOWS.table(flows), geometries=lines),
                ZONES.table(zones),
                CELLS.table(cells),
                BANDS.table(band_columns(found)),
            ),
            manifest=manifest_of(found, question.options, repeats=found.repetition),
            notes=tuple(content["warnings"]),
            files={
                f"{name}.geojson": partial(write_geojson, placed_flows(content[name], ends, metric))
                for name, ends in (("flows", places.cells), ("zones", places.zones))
            },
            printed=_printed(content),
        )

    def series(self, windows: Sequence[Aggregate], question: Question) -> Result:
        """Decode all windows together, and the distance bands of each."""
        each = [decode_flows(one, question.options, progress=question.progress) for one in windows]
        quantities = (*band_texts(each[0].flow.bands_km), APART)
        shares = [band_shares(one) for one in each]
        found = SeriesFound(each, quantities, shares, band_changes(each, quantities))
        whole = self.decode(windows, question)
        return series_result(whole, found, question.options)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """A map, the matrix of zones, distance bands and the table of flows."""
        found = stored.json()
        view = flows_view(found, query)
        first, second = view["slots"]
        when = f"of one {found['period']}"
        if found["flow"]["lag"]:
            when = f"{counted(found['flow']['lag'], found['period'])} later"
        lead = (
            f"From {first} to {second} {when}; {days(found['first_day'], found['last_day'])}; "
            f"{count(found['num_reports'])} reports. Intervals at {view['level']}."
        )
        return PageParts("result_flow.html.j2", view, lead, map=True)


KIND = Flows()


def _summary(content: dict[str, Any]) -> dict[str, Any]:
    """How many flows are detected, the share that moved, and the largest flows."""
    names = ("origin", "destination", "estimate", "low", "high")
    detected = [row for row in content["flows"] if row["detected"]]
    kept = ("num_reports", "num_detected", "detected_share", "detectable_share", "own_cell",
            "moved", "warnings")  # fmt: skip
    lag, moved = content["flow"]["lag"], percent(content["moved"]["estimate"])
    number = counted(content["num_detected"], "flow")
    return {name: content[name] for name in kept} | {
        "lag": lag,
        "headline": f"{moved} changed their cell" if lag else f"{number} detected",
        "top": [{name: row[name] for name in names} for row in detected[:MAX_LISTED]],
    }


def _printed(content: dict[str, Any]) -> tuple[Table, ...]:
    """The flows that are detected, largest first; distance bands and those who moved."""
    detected = [row for row in content["flows"] if row["detected"]]
    flows = FLOWS.table({name: [row[name] for row in detected] for name in _PRINTED},
        f"{content['metric']}: {content['num_reports']:,} reports; "
        f"{counted(len(detected), 'flow')} detected, {percent(content['detected_share'])} of "
        f"people; one of {percent(content['detectable_share'])} is found 8 times in 10",
    )  # fmt: skip
    bands = [*content["bands"], {"band": APART, **content["moved"]}]
    names = ("band", "estimate", "low", "high")
    return flows, BANDS.table({name: [row[name] for row in bands] for name in names})
