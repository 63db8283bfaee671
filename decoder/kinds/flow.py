"""The kind flow: flows of people between usual cells."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from decoder.flows.decoding import decode_flows, flow_of
from decoder.flows.tables import band_changes, band_shares
from decoder.formats.density_inputs import read_known_flows
from decoder.kinds.interface import KindDecoder
from decoder.kinds.over_time import SeriesFound, series_result
from decoder.kinds.result import RESULTS, PageParts, Question, Result, StoredResult, manifest_of
from decoder.output.basemap import BaseLayer, read_base
from decoder.output.flows_tables import (
    BANDS,
    CELLS,
    FLOWS,
    ZONES,
    FlowPlaces,
    band_texts,
    flow_tables,
    flows_content,
)
from decoder.output.flows_view import flows_view, placed_flows
from decoder.sources.windows import sum_of
from decoder.tables.format import count, days, percent
from decoder.tables.geo_files import write_geojson
from decoder.tables.paging import TableQuery
from decoder.tables.table import Table
from rappor_core.aggregate import Aggregate
from rappor_core.text import counted

MAX_LISTED = 20  # flows in a summary
_PRINTED = ("origin", "origin_name", "destination", "destination_name", "km", "estimate", "low",
            "high")  # fmt: skip
APART = "two different cells"


class Flows(KindDecoder):
    """The decoder for flow metrics."""

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
        window, options, notes = sum_of(counts), question.flows, list[str]()
        flow = flow_of(window)
        prior = read_known_flows(options.known, flow, notes.append) if options.known else None
        for text in notes:
            question.note(text)
        places = FlowPlaces.of(flow, read_base(options.base) if options.base else BaseLayer())
        decoding = decode_flows(window, question.options, prior, question.progress)
        tables = flow_tables(decoding, places)
        content = flows_content(decoding, places, tables, options, tuple(notes))
        metric = content["metric"]
        return Result(
            content,
            _summary(content),
            tables,
            manifest=manifest_of(decoding, question.options, repeats=decoding.repetition),
            notes=tuple(content["warnings"]),
            files={
                f"{name}.geojson": partial(write_geojson, placed_flows(content[name], ends, metric))
                for name, ends in (("flows", places.cells), ("zones", places.zones))
            },
            printed=_printed(content),
        )

    def series(self, windows: Sequence[Aggregate], question: Question) -> Result:
        """Decode all windows together, and the distance bands in each window."""
        each = [
            decode_flows(window, question.options, progress=question.progress) for window in windows
        ]
        quantities = (*band_texts(each[0].flow.bands_km), APART)
        shares = [band_shares(item) for item in each]
        series = SeriesFound(each, quantities, shares, band_changes(each, quantities))
        whole = self.decode(windows, question)
        return series_result(whole, series, question.options)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return a map, the zone matrix, the distance bands and the table of flows."""
        content = stored.json()
        view = flows_view(content, query)
        first, second = view["slots"]
        when = f"of one {content['period']}"
        if content["flow"]["lag"]:
            when = f"{counted(content['flow']['lag'], content['period'])} later"
        lead = (
            f"From {first} to {second} {when}; {days(content['first_day'], content['last_day'])}; "
            f"{count(content['num_reports'])} reports. Intervals at {view['level']}."
        )
        return PageParts("result_flow.html.j2", view, lead, map=True)


KIND = Flows()


def _summary(content: dict[str, Any]) -> dict[str, Any]:
    """Return the number of detected flows, the share of people who moved, and the largest flows."""
    names = ("origin", "destination", "estimate", "low", "high")
    detected = [row for row in content["flows"] if row["detected"]]
    names_kept = ("num_reports", "num_detected", "detected_share", "detectable_share", "own_cell",
            "moved", "warnings")  # fmt: skip
    lag, moved = content["flow"]["lag"], percent(content["moved"]["estimate"])
    number = counted(content["num_detected"], "flow")
    return {name: content[name] for name in names_kept} | {
        "lag": lag,
        "headline": f"{moved} moved to another cell" if lag else f"{number} detected",
        "top": [{name: row[name] for name in names} for row in detected[:MAX_LISTED]],
    }


def _printed(content: dict[str, Any]) -> tuple[Table, ...]:
    """Return the detected flows, largest first, and distance bands with the share that moved."""
    detected = [row for row in content["flows"] if row["detected"]]
    flows = FLOWS.table({name: [row[name] for row in detected] for name in _PRINTED},
        f"{content['metric']}: {content['num_reports']:,} reports; "
        f"{counted(len(detected), 'flow')} detected, {percent(content['detected_share'])} of "
        f"people; one of {percent(content['detectable_share'])} is detected 8 times in 10",
    )  # fmt: skip
    bands = [*content["bands"], {"band": APART, **content["moved"]}]
    names = ("band", "estimate", "low", "high")
    return flows, BANDS.table({name: [row[name] for row in bands] for name in names})
