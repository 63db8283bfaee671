"""The kind location: maps by slot and window, shares of named areas, and changes."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from decoder.density.areas import AreaShares, area_shares, check_size
from decoder.density.cells import Places, slot_places
from decoder.density.maps import Density, DensityOptions, estimate_density_series
from decoder.errors import DecodeError
from decoder.files import finite
from decoder.formats.density_inputs import read_areas, read_points, read_region
from decoder.grid_cells import cell_center, location_of
from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import PageParts, Question, Result, StoredResult, manifest_of
from decoder.output.basemap import BaseLayer, map_json, place_name, read_base
from decoder.output.density_csv import (
    AREAS,
    DENSITY,
    NOT_APART,
    PRINTED,
    area_rows,
    cell_geometries,
    cell_size,
    density_features,
    density_table,
    grouped_warnings,
    held_text,
    visible_text,
    window_text,
)
from decoder.output.density_html import map_changes, map_data
from decoder.output.map_picture import write_picture
from decoder.progress import Progress
from decoder.sources.windows import Groups, SlotWindow, group_by_slot
from decoder.tables.format import count
from decoder.tables.geo_files import write_geojson
from decoder.tables.paging import TableQuery
from decoder.tables.table import Table
from rappor_core.aggregate import Aggregate
from rappor_core.grid.box import RESERVED, Point
from rappor_core.risk import CROWD
from rappor_core.sequence_risk import risk_text
from rappor_core.tasks import run_tasks

MAP, MAP_CHANGES = "map.json", "map_changes.json"  # files that the page's script draws
PICTURE = "density.svg"
MAX_LISTED = 20  # the maximum number of warnings in a summary
NO_CHANGE = "not distinguishable from no change"


@dataclass(frozen=True)
class Maps:
    """A map for each slot and window, with points to draw and shares of named areas."""

    densities: list[Density]
    points: list[Point] = field(default_factory=list)
    base: BaseLayer = field(default_factory=BaseLayer)
    areas: list[AreaShares] = field(default_factory=list)  # One entry per map, in the same order
    area_notes: tuple[str, ...] = ()  # Notes for readers about the shares of areas

    def last(self) -> dict[str, Density]:
        """Return the last map of each slot."""
        return {density.location.slot: density for density in self.densities}


class Locations(KindDecoder):
    """The decoder for location metrics."""

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
        """Map every slot and window in the counts; see `KindDecoder.decode`."""
        return map_result(make_maps(counts, question), question, counts[0])

    def compare(
        self, before: Sequence[Aggregate], after: Sequence[Aggregate], question: Question
    ) -> Result:
        """Map both windows as one series. Raises DecodeError if no slot is in both."""
        slots = [{location_of(level)[1].slot for level in window} for window in (before, after)]
        if slots[0].isdisjoint(slots[1]):
            named = " and ".join(", ".join(sorted(some)) for some in slots)
            raise DecodeError(f"the windows share no slot; they have {named}")
        return self.decode([*before, *after], question)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return maps drawn by a script; for pairs of places, only tables."""
        del query
        content = stored.json()
        lead = f"{count(content['num_reports'])} reports"
        view = {"has_map": False, "has_changes": False, "warnings": content["warnings"]}
        if MAP not in stored.files:
            return PageParts("result_density.html.j2", view, lead)
        drawn = stored.json(MAP)
        view |= {
            "has_map": True,
            "has_changes": MAP_CHANGES in stored.files,
            "data_url": f"{stored.address}/map.json" if stored.address else None,
            "picture": f"/v1{stored.address}/files/{PICTURE}" if stored.address else PICTURE,
            "data": None if stored.address else map_json(drawn),
            "has_areas": bool(drawn["areas"]),
            "no_data": any("no_data" in drawn_map for drawn_map in drawn["maps"]),
            "texts": drawn["texts"],
        }
        return PageParts("result_density.html.j2", view, lead, map=True)


KIND = Locations()


def make_maps(counts: Sequence[Aggregate], question: Question) -> Maps:
    """Estimate one map per slot and window; the arguments are those of `KindDecoder.decode`."""
    choices, levels, progress = question.maps, question.options, question.progress
    groups = group_by_slot(counts, counts[0].metric.partition("/")[0], choices.slots, question.note)
    points = read_points(choices.points) if choices.points else []
    base = read_base(choices.base) if choices.base else BaseLayer()
    areas, notes = None, tuple[str, ...]()
    if choices.areas:  # before the long computation, since a file may be invalid
        first = next(iter(groups.values()))
        places = slot_places(first)
        check_size(first, places)
        areas, notes = read_areas(choices.areas, places, choices.area_name)
    options = DensityOptions(
        choices.method, alpha=levels.alpha, level=levels.level, repeats=levels.repeats
    )
    densities = _densities(groups, options, progress, question.executor)
    shares = list[AreaShares]()
    if areas:
        for aggregates, density in zip(groups.values(), densities, strict=True):
            shares.append(area_shares(aggregates, density, areas))
            progress("areas", len(shares), len(densities))
    if choices.region:  # all cells are fitted even so
        chosen = read_region(choices.region, densities[0].places)
        densities = [density.showing(chosen) for density in densities]
    return Maps(densities, points, base, shares, notes)


@dataclass(frozen=True)
class SlotTask:
    """The windows of one slot that are mapped as one series; slots are independent."""

    keys: list[SlotWindow]
    windows: list[list[Aggregate]]
    options: DensityOptions
    places: Places


def _map_slot(task: SlotTask) -> Iterator[Density]:
    return estimate_density_series(task.windows, task.options, task.places)


def _listed_maps(task: SlotTask) -> list[Density]:
    return list(_map_slot(task))


def _densities(
    groups: Groups, options: DensityOptions, progress: Progress, executor: Executor | None
) -> list[Density]:
    """Estimate one map per slot and window, in the order of the groups.

    Windows of a slot with the same levels and parameters are one series, which is one task."""
    series: dict[tuple[str, ...], list[SlotWindow]] = defaultdict(list)
    for key, aggregates in groups.items():
        series[key[0], *sorted(aggregate.params_id for aggregate in aggregates)].append(key)
    places: dict[tuple[int, ...], Places] = {}
    maps: dict[SlotWindow, Density] = {}
    progress("maps", 0, len(groups))
    tasks = []
    for keys in series.values():
        windows = [groups[key] for key in keys]
        levels = tuple(sorted(location_of(level)[1].level for level in windows[0]))
        if levels not in places:
            places[levels] = slot_places(windows[0])
        tasks.append(SlotTask(keys, windows, options, places[levels]))
    work = _map_slot if executor is None else _listed_maps  # the first reports each window
    for task, densities in run_tasks(work, tasks, executor):
        for key, density in zip(task.keys, densities, strict=True):
            maps[key] = density
            progress("maps", len(maps), len(groups))
    return [maps[key] for key in groups]


def map_result(maps: Maps, question: Question, counts: Aggregate) -> Result:
    """Return the result of maps; `counts` is one of the aggregates behind them."""
    densities, first, last = maps.densities, maps.densities[0], maps.densities[-1]
    table = density_table(densities)
    geometries = None if first.places.pairs else cell_geometries(densities)
    cells = DENSITY.table({name: table[name] for name in table.column_names})
    rows = area_rows(densities, maps.areas) if maps.areas else []
    texts = (
        *(visible_text(density) for density in maps.last().values()),
        *grouped_warnings(densities),
        *maps.area_notes,
        held_text(first),
        risk_text(first.metric, CROWD),
    )
    content, documents = _content(maps), dict[str, dict[str, Any]]()
    files: dict[str, Callable[[Path], object]] = {}
    if not first.places.pairs:
        drawn = map_data(densities, maps.points, maps.area_notes, maps.base, maps.areas)
        changes = map_changes(densities)
        documents = {MAP: drawn} | ({} if changes is None else {MAP_CHANGES: changes})
        drawn_maps = densities if question.maps.every_window else list(maps.last().values())
        files["density.geojson"] = partial(write_geojson, density_features(drawn_maps))
        files[PICTURE] = partial(write_picture, drawn)
    if rows:
        shapes = [shape for area in maps.areas for shape in area.areas.geometries]
        files["areas.geojson"] = partial(write_geojson, zip(shapes, rows, strict=True))
    manifest = manifest_of(counts, question.options, num_reports=content["num_reports"],
                           first_day=first.first_day and str(first.first_day),
                           last_day=last.last_day and str(last.last_day),
                           map_method=question.maps.method)  # fmt: skip
    summary = {
        "num_maps": len(densities),
        "num_cells": first.num_cells,
        "num_reports": content["num_reports"],
        "slots": list(maps.last()),
        "headline": f"{len(densities)} maps of {first.num_cells:,} cells",
        "warnings": content["warnings"],
    }
    return Result(
        content,
        summary,
        (replace(cells, geometries=geometries), *([AREAS.of_records(rows)] if rows else ())),
        manifest=manifest,
        notes=tuple(filter(None, texts)),
        files=dict(sorted(files.items())),
        documents=documents,
        printed=_printed(maps),
    )


def _content(maps: Maps) -> dict[str, Any]:
    """Return the contents of results.json: a summary of each map, and the changes in each slot."""
    listed = [
        {
            "slot": density.location.slot,
            "first_day": str(density.first_day) if density.first_day else None,
            "last_day": str(density.last_day) if density.last_day else None,
            "num_reports": density.num_reports,
            "detectable_share": density.detectable_share,
            "unlisted": density.unlisted,
            "source": density.source,
            "check": asdict(density.check) if density.check else None,
            "warnings": list(density.warnings),
        }
        for density in maps.densities
    ]
    changes = {
        slot: {"cells": list(last.cells)}
        | {name: part.tolist() for name, part in vars(last.since_first).items()}
        for slot, last in maps.last().items()
        if last.since_first is not None
    }
    warnings = dict.fromkeys(text for density in maps.densities for text in density.warnings)
    content: dict[str, Any] = finite(
        {
            "metric": maps.densities[0].metric.base_name,
            "num_reports": sum(density.num_reports for density in maps.densities),
            "maps": listed,
            "changes": changes,
            "warnings": list(warnings)[:MAX_LISTED],
        }
    )
    return content


def _printed(maps: Maps) -> tuple[Table, ...]:
    """Return tables with each slot's last map and changes, largest first, and with areas."""
    tables = []
    for slot, one in maps.last().items():
        order = np.argsort(-one.shares, kind="stable")
        cells, shares = [one.cells[i] for i in order], one.shares[order]
        data: dict[str, Any] = {
            "cell": cells,
            "place": [_place_text(one, cell, maps.base) for cell in cells],
            "map_share": shares,
            "in_box": np.where(np.isin(cells, RESERVED), np.nan, shares / one.in_box),
            **{name: getattr(one, name)[order] for name in ("estimate", "low", "high", "detected")},
        }
        where = ", ".join(filter(None, (slot, window_text(one))))
        title = f"{where}: {one.num_reports:,} reports; no: {NOT_APART} as one of {one.num_cells:,}"
        tables.append(PRINTED.table(data, title))
        if (changes := one.since_first) is not None:
            order = np.argsort(changes.p_value, kind="stable")
            data = {
                "cell": [one.cells[i] for i in order],
                "since_first": changes.difference[order],
                "since_first_low": changes.low[order],
                "since_first_high": changes.high[order],
                "changed_since_first": changes.detected[order],
            }
            title = f"{slot}: change from the first window to the last; no: {NO_CHANGE}"
            tables.append(PRINTED.table(data, title))
    if maps.areas:
        pairs = zip(maps.densities, maps.areas, strict=True)
        last = {density.location.slot: (density, shares) for density, shares in pairs}
        rows = area_rows(*zip(*last.values(), strict=True))
        tables.append(AREAS.of_records(rows, f"Areas, of all answers; no: {NOT_APART}"))
    return tuple(tables)


def _place_text(density: Density, cell: str, base: BaseLayer) -> str:
    if cell in RESERVED or density.places.pairs:
        return ""
    center = cell_center(density.places.grid, cell)
    return place_name(center, base, max(cell_size(density))) or f"{center[0]:.3f} {center[1]:.3f}"
