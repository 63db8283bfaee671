"""`rappor density METRIC`: where devices usually are, as maps with error bars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from decoder.density.cells import Places, location_of
from decoder.density.map_change import Change, change
from decoder.density.maps import Density, DensityOptions, density_series
from decoder.density.slots import slot_places
from decoder.files import replacing
from decoder.reports.base_layer import BaseLayer, read_base
from privacy_audit.trackability import trackability_text
from rappor_cli.days import read_day
from rappor_cli.density_inputs import read_cells, read_points, read_region
from rappor_cli.density_sources import (
    Groups,
    SlotWindow,
    SplitName,
    ask_collector,
    group_by_slot,
    read_files,
)
from rappor_cli.density_tables import print_json, print_maps
from rappor_cli.progress import progress_bar
from rappor_cli.store import CollectorOption, DatabaseOption
from rappor_core.aggregate import Aggregate
from rappor_core.grid.box import Point

MAP_FILES = ("density.geojson", "density.png", "density.html")  # not of pairs


class MapMethodName(StrEnum):
    """How a map is made of the estimates."""

    FIELD = "field"
    HIERARCHY = "hierarchy"
    SIMPLEX = "simplex"


def density(
    metric: Annotated[str, typer.Argument(help="Its declared name, without slot and level.")],
    aggregate: Annotated[
        list[Path] | None,
        typer.Option("--aggregate", help="Aggregate files of its sub-metrics.", exists=True),
    ] = None,
    collector: CollectorOption = None,
    database: DatabaseOption = None,
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")] = None,
    split: Annotated[SplitName, typer.Option("--by", help="One map a part.")] = SplitName.WHOLE,
    slot: Annotated[list[str] | None, typer.Option(help="Only these slots.")] = None,
    method: Annotated[MapMethodName, typer.Option(help="Kind of map.")] = MapMethodName.FIELD,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    alpha: Annotated[float, typer.Option(help="False share among visible cells.")] = 0.05,
    repeats: Annotated[
        float | None, typer.Option(help="Reports by device: sum r^2 / sum r, 1 for one each.")
    ] = None,
    cells: Annotated[
        Path | None,
        typer.Option(help="Show only these cells: one a line, or a column `cell`.", exists=True),
    ] = None,
    region: Annotated[
        Path | None, typer.Option(help="GeoJSON polygon: show only cells in it.", exists=True)
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(help="CSV with latitude and longitude, to be marked.", exists=True),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="GeoJSON of streets, districts or stations, to be drawn.", exists=True),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for files.")] = None,
    every_window: Annotated[
        bool, typer.Option(help="All windows in the GeoJSON too, not only each slot's last.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
) -> None:
    """Map where devices usually are, by slot: table, CSV, Parquet, GeoJSON, PNG, HTML."""
    options = DensityOptions(method.value, level=level, alpha=alpha, repeats=repeats)
    window = read_day(first), read_day(last)
    if aggregate and (any(window) or split is not SplitName.WHOLE):
        raise typer.BadParameter(
            "--from, --to and --by ask a collector; each file is a window of its own"
        )
    found = (read_files(metric, aggregate) if aggregate
             else ask_collector(metric, collector, database, window, split))  # fmt: skip
    groups = group_by_slot(found, metric, slot or ())
    marked = read_points(points) if points else []
    layer = read_base(base) if base else BaseLayer()
    maps = _shown(make_maps(groups, options), cells, region)
    tracked = "" if as_json and not output else trackability_text(maps[0].metric)
    if output:
        _write(maps, output, marked, tracked, every_window, layer)
    if as_json:
        print_json(maps)
        return
    print_maps(maps, slot_changes(maps, groups), tracked, layer)
    if output:
        more = "" if maps[0].places.pairs else f", {', '.join(MAP_FILES)}"
        print(f"files in {output}: density.csv, density.parquet{more}")


def make_maps(groups: Groups, options: DensityOptions) -> list[Density]:
    """One map a slot and window, in the order of the groups; cells are listed once.

    Windows of a slot with the same levels and parameters are mapped as one series.
    """
    series: dict[tuple[str, ...], list[SlotWindow]] = defaultdict(list)
    for key, aggregates in groups.items():
        series[key[0], *sorted(one.params_id for one in aggregates)].append(key)
    known: dict[tuple[int, ...], Places] = {}
    maps: dict[SlotWindow, Density] = {}
    with progress_bar("maps", len(groups)) as advance:
        for keys in series.values():
            windows = [groups[key] for key in keys]
            levels = tuple(sorted(location_of(one)[1].level for one in windows[0]))
            if levels not in known:
                known[levels] = slot_places(windows[0])
            for key, one in zip(keys, density_series(windows, options, known[levels]), strict=True):
                maps[key] = one
                advance(1)
    return [maps[key] for key in groups]


def _shown(maps: list[Density], cells: Path | None, region: Path | None) -> list[Density]:
    """The maps with only the cells of a list or of a region, where one was given."""
    if cells and region:
        raise typer.BadParameter("give one of --cells and --region")
    places = maps[0].places
    if cells:
        chosen = read_cells(cells, places)
    elif region:
        chosen = read_region(region, places)
    else:
        return maps
    return [one.showing(chosen) for one in maps]


def slot_changes(maps: Sequence[Density], groups: Groups) -> dict[str, Change]:
    """Change of each slot from its first window to its last, where it has several."""
    finest = [max(found, key=lambda one: location_of(one)[1].level) for found in groups.values()]
    by_slot: dict[str, list[tuple[Density, Aggregate]]] = defaultdict(list)
    for one, aggregate in zip(maps, finest, strict=True):
        by_slot[one.location.slot].append((one, aggregate))
    return {slot: change(found[0], found[-1]) for slot, found in by_slot.items() if len(found) > 1}


def _write(
    maps: Sequence[Density], folder: Path, points: Sequence[Point], note: str, every_window: bool,
    base: BaseLayer,
) -> None:  # fmt: skip
    # Here: a second of libraries that a table does not need.
    from decoder.reports.density_csv import write_density_files
    from decoder.reports.density_html import render_page
    from decoder.reports.density_png import write_picture

    write_density_files(maps, folder, every_window=every_window)
    if maps[0].places.pairs:  # those of another metric would seem to go with the tables
        for name in MAP_FILES:
            (folder / name).unlink(missing_ok=True)
        return
    with replacing(folder / "density.png") as part:
        write_picture(maps, part, points, base)
    with replacing(folder / "density.html") as part:
        part.write_text(render_page(maps, points, [note], base), encoding="utf-8")
