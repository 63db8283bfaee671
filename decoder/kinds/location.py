"""The kind location: maps by slot and window, with shares of named areas, and their changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from decoder.comparison.differences import Differences
from decoder.density.areas import Areas, AreaShares, area_shares, check_size
from decoder.density.cells import Places, slot_places
from decoder.density.maps import Density, DensityOptions, estimate_density_series
from decoder.errors import DecodeError
from decoder.files import finite
from decoder.formats.density_inputs import read_areas, read_cells, read_points, read_region
from decoder.grid_cells import cell_center, location_of
from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import PageParts, Question, Result, StoredResult, manifest_of
from decoder.options import MapOptions
from decoder.output.basemap import BaseLayer, map_json, place_name, read_base
from decoder.output.density_csv import (
    area_geometries,
    area_rows,
    cell_geometries,
    density_features,
    density_table,
)
from decoder.output.density_html import map_changes, map_data, view_of
from decoder.output.density_text import (
    NOT_APART,
    cell_km,
    grouped_warnings,
    held_text,
    visible_text,
    window_text,
)
from decoder.output.map_picture import write_picture
from decoder.progress import Progress
from decoder.sources.density_windows import Groups, SlotWindow, group_by_slot
from decoder.tables.format import count
from decoder.tables.geo_files import (
    NO_GEOPACKAGE,
    has_geopackage,
    with_geometry,
    write_geojson,
    write_geopackage,
)
from decoder.tables.paging import TableQuery
from decoder.tables.table import Column, ColumnType, Table, TableSchema
from rappor_core.aggregate import Aggregate
from rappor_core.grid.box import RESERVED, Point
from rappor_core.risk import CROWD
from rappor_core.sequence_risk import risk_text

MAP, MAP_CHANGES = "map.json", "map_changes.json"  # what the script of a page draws
PICTURE = "density.svg"
MAX_LISTED = 20  # warnings of a summary
_TEXT, _SHARE, _DAY = ColumnType.TEXT, ColumnType.SHARE, ColumnType.DAY
_WHERE = (
    Column("metric", _TEXT, "The declared name of the metric."),
    Column("slot", _TEXT, "The slot of the day.", shown=True),
    Column("first_day", _DAY, "First day of the window."),
    Column("last_day", _DAY, "Last day of the window.", "to", shown=True),
)
_MAP_SHARE = Column("map_share", _SHARE, "One guess at the whole map, which sums to 1.", "map",
                    shown=True)  # fmt: skip
_ESTIMATES = (
    Column("estimate", _SHARE, "Unbiased share of all answers.", shown=True),
    Column("std_error", _SHARE, "Standard error of `estimate`."),
    Column("low", _SHARE, "Lower end of the interval.", shown=True),
    Column("high", _SHARE, "Upper end of the interval.", shown=True),
    Column("detected", ColumnType.FLAG, "Whether the share is distinguishable from zero.", "≠ 0",
           shown=True),
)  # fmt: skip


def _changes(prefix: str, of: str) -> tuple[Column, ...]:
    return (
        Column(prefix, ColumnType.POINTS, f"Change of the share {of}."),
        Column(f"{prefix}_low", ColumnType.POINTS, "Lower end of its interval."),
        Column(f"{prefix}_high", ColumnType.POINTS, "Upper end of its interval."),
    )


DENSITY = TableSchema(
    "density",
    "Shares of cells",
    (
        *_WHERE,
        Column("cell", _TEXT, "The cell, or `other`, `no_data` and `unlisted`.", shown=True),
        Column("latitude", ColumnType.NUMBER, "Of the cell's center.", unit="degrees"),
        Column("longitude", ColumnType.NUMBER, "Of the cell's center.", unit="degrees"),
        _MAP_SHARE,
        *_ESTIMATES,
        Column("note", _TEXT, "What a reader should know of the row."),
        Column("detectable_share", _SHARE, "Smallest share that is detected 8 times in 10."),
        Column("reports", ColumnType.INTEGER, "Reports of the slot and window."),
        Column("map_source", _TEXT, "How the map was made."),
        Column("check_p", ColumnType.P_VALUE, "P-value of the test that the map fits its reports."),
        *_changes("change", "from its mean in the other windows"),
        Column("changed", ColumnType.FLAG, "Whether that change is detected."),
        *_changes("since_first", "since the first window"),
        Column("changed_since_first", ColumnType.FLAG, "Whether that change is detected."),
    ),
)
AREAS = TableSchema(
    "areas",
    "Shares of areas",
    (
        Column("name", _TEXT, "The name of the area.", "area", shown=True),
        *_WHERE,
        Column("cells", ColumnType.NUMBER, "Cells that the area covers, parts among them."),
        Column("covered", _SHARE, "Part of the area that lies in the box."),
        _MAP_SHARE,
        *_ESTIMATES,
        Column("reports", ColumnType.INTEGER, "Reports of the slot and window."),
    ),
)


PRINTED = TableSchema(
    "density",
    "Shares of cells",
    (
        DENSITY.columns[4],
        Column("place", _TEXT, "What the cell is called, or its center.", shown=True),
        _MAP_SHARE,
        Column("in_box", _SHARE, "The same, of those in the box.", "in box", shown=True),
        *_ESTIMATES,
        *(replace(one, shown=True) for one in _changes("since_first", "since the first window")),
        Column("changed_since_first", ColumnType.FLAG, "Whether that is detected.", "≠ 0",
               shown=True),
    ),
)  # fmt: skip
NO_CHANGE = "not distinguishable from no change"


@dataclass(frozen=True)
class Maps:
    """A map for each slot and window, and the layers to draw on them.

    groups: the aggregates of each map.  areas: shares of named areas in each map, in their order;
    empty without areas.  area_notes: what a reader has to know of them.
    """

    densities: list[Density]
    groups: Groups
    points: list[Point] = field(default_factory=list)
    base: BaseLayer = field(default_factory=BaseLayer)
    areas: list[AreaShares] = field(default_factory=list)
    area_notes: tuple[str, ...] = ()

    def last(self) -> dict[str, Density]:
        """The last map of each slot."""
        return {one.location.slot: one for one in self.densities}


class Locations(KindDecoder):
    """The decoder of places."""

    title = "Maps"
    purpose = "maps of a location metric, by slot and window"
    members = frozenset({"map", "areas"})
    operations = ("decode", "compare")
    schemas = (DENSITY, AREAS)
    published = ("density.csv", "density.geojson")
    command = "density"
    rows_apart = True
    no_candidates = "a location has cells, not candidates"

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Map every slot and window of the counts; see `KindDecoder.decode`."""
        maps = make_maps(counts, question)
        return map_result(maps, question, counts[0])

    def compare(
        self, before: Sequence[Aggregate], after: Sequence[Aggregate], question: Question
    ) -> Result:
        """Map both windows as one series. Raises DecodeError where no slot is in both."""
        slots = [{location_of(one)[1].slot for one in window} for window in (before, after)]
        if slots[0].isdisjoint(slots[1]):
            named = " and ".join(", ".join(sorted(some)) for some in slots)
            raise DecodeError(f"no slot is in both windows, which have {named}")
        return self.decode([*before, *after], question)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Maps, drawn by a script; of pairs of places there are tables alone."""
        del query
        found = stored.json()
        lead = f"{count(found['num_reports'])} reports"
        view = {"has_map": False, "has_changes": False, "warnings": found["warnings"]}
        if MAP not in stored.files:
            return PageParts("result_density.html.j2", view, lead)
        drawn = stored.json(MAP)
        view |= {"has_map": True, "has_changes": MAP_CHANGES in stored.files}
        view["data_url"] = f"{stored.address}/map.json" if stored.address else None
        view["picture"] = f"/v1{stored.address}/files/{PICTURE}" if stored.address else PICTURE
        view["data"] = None if stored.address else map_json(drawn)
        return PageParts("result_density.html.j2", view | view_of(drawn), lead, map=True)


KIND = Locations()


def make_maps(counts: Sequence[Aggregate], question: Question) -> Maps:
    """Make one map a slot and window; arguments as of `KindDecoder.decode`."""
    asked = question.maps
    groups = group_by_slot(counts, counts[0].metric.partition("/")[0], asked.slots, question.note)
    points = read_points(asked.points) if asked.points else []
    base = read_base(asked.base) if asked.base else BaseLayer()
    named: tuple[Areas, tuple[str, ...]] | None = None
    if asked.areas:  # before the long work: a file may be wrong
        first = next(iter(groups.values()))
        places = slot_places(first)
        check_size(first, places)
        named = read_areas(asked.areas, places, asked.area_name)
    levels = question.options
    options = DensityOptions(
        asked.method, alpha=levels.alpha, level=levels.level, repeats=levels.repeats
    )
    densities = _densities(groups, options, question.progress)
    shares = _area_shares(groups, densities, named[0], question.progress) if named else []
    notes = named[1] if named else ()
    return Maps(_showing(densities, asked), groups, points, base, shares, notes)


def map_result(maps: Maps, question: Question, counts: Aggregate) -> Result:
    """The result of maps. counts: one of the aggregates that they were made of."""
    densities, notes = maps.densities, grouped_warnings(maps.densities)
    first, last = densities[0], densities[-1]
    table = density_table(densities)
    geometries = None if first.places.pairs else cell_geometries(densities)
    cells = DENSITY.table({name: table[name] for name in table.column_names})
    tables: tuple[Table, ...] = (replace(cells, geometries=geometries),)
    if maps.areas:
        tables += (_areas_table(densities, maps.areas),)
    visible = [visible_text(one) for one in maps.last().values()]
    missing = [] if has_geopackage() or first.places.pairs else [NO_GEOPACKAGE]
    promise = risk_text(first.metric, CROWD)
    texts = (*visible, *notes, *maps.area_notes, *missing, held_text(first), promise)
    manifest = manifest_of(counts, question.options, num_reports=_reports(maps),
                           first_day=first.first_day and str(first.first_day),
                           last_day=last.last_day and str(last.last_day),
                           map_method=question.maps.method)  # fmt: skip
    content, documents = _content(maps), _documents(maps)
    return Result(
        content,
        _summary(maps, content),
        tables,
        manifest=manifest,
        notes=tuple(filter(None, texts)),
        files=_files(maps, question, documents),
        documents=documents,
        printed=_printed(maps),
    )


def _printed(maps: Maps) -> tuple[Table, ...]:
    """The last map of each slot, the largest cells first; what changed; and areas."""
    found = []
    for slot, one in maps.last().items():
        order = np.argsort(-one.shares, kind="stable")
        rows = density_table([one]).take(order)
        data = {"cell": rows["cell"]}
        data["place"] = [_place_text(one, one.cells[i], maps.base) for i in order]
        data["map_share"] = rows["map_share"]
        data["in_box"] = [None if one.cells[i] in RESERVED else float(one.shares[i] / one.in_box)
                          for i in order]  # fmt: skip
        data |= {name: rows[name] for name in ("estimate", "low", "high", "detected")}
        where = ", ".join(filter(None, (slot, window_text(one))))
        title = f"{where}: {one.num_reports:,} reports; no: {NOT_APART} as one of {one.num_cells:,}"
        found.append(PRINTED.table(data, title))
        if one.since_first is not None:
            found.append(_change_table(one, one.since_first))
    if maps.areas:
        pairs = zip(maps.densities, maps.areas, strict=True)
        last = {one.location.slot: (one, found_in) for one, found_in in pairs}
        densities, shares = zip(*last.values(), strict=True)
        found.append(_areas_table(densities, shares, f"Areas, of all answers; no: {NOT_APART}"))
    return tuple(found)


def _change_table(one: Density, changes: Differences) -> Table:
    """The changes of a slot's last map since its first, the clearest first."""
    clearest = np.argsort(changes.p_value, kind="stable")
    title = f"{one.location.slot}: change from the first window to the last; no: {NO_CHANGE}"
    return PRINTED.table(
        {
            "cell": [one.cells[i] for i in clearest],
            "since_first": changes.difference[clearest],
            "since_first_low": changes.low[clearest],
            "since_first_high": changes.high[clearest],
            "changed_since_first": changes.detected[clearest],
        },
        title,
    )


def _areas_table(
    densities: Sequence[Density], shares: Sequence[AreaShares], title: str = ""
) -> Table:
    return AREAS.of_records(area_rows(densities, shares), title)


def _place_text(one: Density, cell: str, base: BaseLayer) -> str:
    """What a cell is called, or where its center is."""
    if cell in RESERVED or one.places.pairs:
        return ""
    center = cell_center(one.places.grid, cell)
    return place_name(center, base, cell_km(one)) or f"{center[0]:.3f} {center[1]:.3f}"


def _files(
    maps: Maps, question: Question, documents: Mapping[str, dict[str, Any]]
) -> dict[str, Callable[[Path], object]]:
    """GeoJSON, GeoPackage and picture; none of pairs."""
    densities = maps.densities
    files: dict[str, Callable[[Path], object]] = {}
    if maps.areas:
        features = zip(area_geometries(maps.areas), area_rows(densities, maps.areas), strict=True)
        files["areas.geojson"] = partial(write_geojson, features)
    if densities[0].places.pairs:
        return files
    shown = densities if question.maps.every_window else list(maps.last().values())
    files["density.geojson"] = partial(write_geojson, density_features(shown))
    if has_geopackage():
        files["density.gpkg"] = partial(_write_geopackage, maps)
    return files | {PICTURE: partial(write_picture, documents[MAP])}


def _documents(maps: Maps) -> dict[str, dict[str, Any]]:
    """What the script of the page draws; none of pairs."""
    densities, notes = maps.densities, maps.area_notes
    if densities[0].places.pairs:
        return {}
    drawn = map_data(densities, maps.points, notes, maps.base, maps.areas)
    changes = map_changes(densities)
    return {MAP: drawn} if changes is None else {MAP: drawn, MAP_CHANGES: changes}


def _write_geopackage(maps: Maps, path: Path) -> None:
    layers = map_layers(maps.densities, maps.areas)
    write_geopackage(layers, str(maps.densities[-1].last_day), path)


def map_layers(maps: Sequence[Density], shares: Sequence[AreaShares]) -> dict[str, Any]:
    """Layers `cells` and, where there are any, `areas` of a GeoPackage: all slots and windows."""
    layers = {"cells": with_geometry(density_table(maps), cell_geometries(maps))}
    if shares:
        rows = pa.Table.from_pylist(area_rows(maps, shares))
        layers["areas"] = with_geometry(rows, area_geometries(shares))
    return layers


def _reports(maps: Maps) -> int:
    return sum(one.num_reports for one in maps.densities)


def _content(maps: Maps) -> dict[str, Any]:
    """The contents of results.json: each map in short, and the changes of each slot."""
    listed = [_map(one) for one in maps.densities]
    changes = {
        slot: {"cells": list(one.cells)}
        | {name: part.tolist() for name, part in vars(one.since_first).items()}
        for slot, one in maps.last().items()
        if one.since_first is not None
    }
    warnings = [text for one in listed for text in one["warnings"]]
    content: dict[str, Any] = finite(
        {
            "metric": maps.densities[0].metric.base_name,
            "num_reports": _reports(maps),
            "maps": listed,
            "changes": changes,
            "warnings": list(dict.fromkeys(warnings))[:MAX_LISTED],
        }
    )
    return content


def _summary(maps: Maps, content: Mapping[str, Any]) -> dict[str, Any]:
    cells = maps.densities[0].num_cells
    return {
        "num_maps": len(maps.densities),
        "num_cells": cells,
        "num_reports": content["num_reports"],
        "slots": list(maps.last()),
        "headline": f"{len(maps.densities)} maps of {cells:,} cells",
        "warnings": content["warnings"],
    }


def _map(one: Density) -> dict[str, Any]:
    return {
        "slot": one.location.slot,
        "first_day": str(one.first_day) if one.first_day else None,
        "last_day": str(one.last_day) if one.last_day else None,
        "num_reports": one.num_reports,
        "detectable_share": one.detectable_share,
        "unlisted": one.unlisted,
        "source": one.source,
        "check": asdict(one.check) if one.check else None,
        "warnings": list(one.warnings),
    }


def _area_shares(
    groups: Groups, densities: Sequence[Density], areas: Areas, progress: Progress
) -> list[AreaShares]:
    """Shares of the areas in each map; all maps are of the same cells."""
    found = []
    for aggregates, one in zip(groups.values(), densities, strict=True):
        found.append(area_shares(aggregates, one, areas))
        progress("areas", len(found), len(densities))
    return found


def _densities(groups: Groups, options: DensityOptions, progress: Progress) -> list[Density]:
    """One map a slot and window, in the order of the groups; cells are listed once.

    Windows of a slot with the same levels and parameters are mapped as one series.
    """
    series: dict[tuple[str, ...], list[SlotWindow]] = defaultdict(list)
    for key, aggregates in groups.items():
        series[key[0], *sorted(one.params_id for one in aggregates)].append(key)
    known: dict[tuple[int, ...], Places] = {}
    maps: dict[SlotWindow, Density] = {}
    progress("maps", 0, len(groups))
    for keys in series.values():
        windows = [groups[key] for key in keys]
        levels = tuple(sorted(location_of(one)[1].level for one in windows[0]))
        if levels not in known:
            known[levels] = slot_places(windows[0])
        for key, one in zip(
            keys, estimate_density_series(windows, options, known[levels]), strict=True
        ):
            maps[key] = one
            progress("maps", len(maps), len(groups))
    return [maps[key] for key in groups]


def _showing(maps: list[Density], asked: MapOptions) -> list[Density]:
    """The maps with only the cells of a list or of a region, where one was given."""
    places = maps[0].places
    if asked.cells:
        chosen = read_cells(asked.cells, places)
    elif asked.region:
        chosen = read_region(asked.region, places)
    else:
        return maps
    return [one.showing(chosen) for one in maps]
