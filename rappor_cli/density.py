"""`rappor density METRIC`: where devices usually are, as maps with error bars."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from decoder.change import Change, change
from decoder.density import Density, DensityOptions, density_series, slot_places
from decoder.density_files import is_of_pairs, write_density_files
from decoder.density_page import render_page
from decoder.density_picture import write_picture
from decoder.errors import DecodeError
from decoder.places import Places, location_of
from decoder.reading import naming, read_aggregate_file
from rappor_cli.days import read_day
from rappor_cli.density_tables import print_json, print_maps
from rappor_cli.progress import progress_bar
from rappor_cli.remote import ask_json, fetch_aggregate
from rappor_cli.store import CollectorOption, DatabaseOption, opened
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError, shown
from rappor_core.grid_codes import Point
from rappor_core.grid_region import region_cells
from simulations.trackability import trackability_text

Fetch = Callable[[str, date | None, date | None], Aggregate]
Window = tuple[date | None, date | None]


class MapMethodName(StrEnum):
    """How a map is made of the estimates."""

    FIELD = "field"
    HIERARCHY = "hierarchy"
    SIMPLEX = "simplex"


class SplitName(StrEnum):
    """How the window is divided."""

    WHOLE = "whole"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


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
    region: Annotated[
        Path | None, typer.Option(help="GeoJSON polygon: list only cells in it.", exists=True)
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(help="CSV with latitude and longitude, to be marked.", exists=True),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
) -> None:
    """Map where devices usually are, by slot: table, CSV, Parquet, GeoJSON, PNG, HTML."""
    options = DensityOptions(method.value, level=level, alpha=alpha, repeats=repeats)
    window = read_day(first), read_day(last)
    groups = _groups(metric, aggregate, collector, database, window, split)
    wanted = _wanted(metric, groups, slot)
    marked = _read_points(points)
    maps = make_maps(wanted, options)
    cells = _region(maps[0], region)
    tracked = "" if as_json and not output else trackability_text(maps[0].metric)
    if output:
        _write(maps, output, marked, tracked)
    if as_json:
        print_json(maps, cells)
        return
    print_maps(maps, slot_changes(maps, wanted), cells, tracked)
    if output:
        print(f"files in {output}: density.csv, density.parquet, density.html and more")


SlotWindow = tuple[str, Window]


def _groups(
    metric: str,
    files: list[Path] | None,
    collector: str | None,
    database: str | None,
    window: Window,
    split: SplitName,
) -> dict[SlotWindow, list[Aggregate]]:
    """Read files, or ask a collector or its database."""
    if files:
        if any(window) or split is not SplitName.WHOLE:
            raise typer.BadParameter(
                "--from, --to and --by ask a collector; each file is a window of its own"
            )
        return group_by_slot(_read(metric, path) for path in files)
    if all(window) and window[0] > window[1]:  # type: ignore[operator]
        raise typer.BadParameter(f"--from {window[0]} is after --to {window[1]}")
    if collector:
        listed = ask_json(collector, "/v1/metrics")["metrics"]
        return _asked(metric, listed, _remote(collector), window, split)
    if database:
        with opened(database) as service:
            return _asked(metric, service.list_metrics(), _stored(service), window, split)
    raise typer.BadParameter("give --aggregate FILE, --collector URL or --database URL")


def _read(metric: str, path: Path) -> Aggregate:
    found = read_aggregate_file(path)
    with naming(path, DecodeError, "fetch it again with rappor aggregate -o FILE"):
        name = location_of(found)[0].base_name
        if name != metric:
            raise DecodeError(f"it is of metric {name!r}, not {metric!r}: rappor density {name}")
    return found


def _wanted(
    metric: str, groups: dict[SlotWindow, list[Aggregate]], slots: list[str] | None
) -> dict[SlotWindow, list[Aggregate]]:
    """The groups of the slots that were asked for."""
    if not groups:
        raise DecodeError(
            f"no reports of {metric!r} in this window; choose another, or wait until its days close"
        )
    known = dict.fromkeys(slot for slot, _ in groups)
    for slot in slots or ():
        if slot not in known:
            raise DecodeError(
                f"slot {slot!r}: no reports of {metric!r} in it; there are some in "
                f"{', '.join(map(repr, known))}"
            )
    return {key: found for key, found in groups.items() if not slots or key[0] in slots}


def group_by_slot(aggregates: Iterable[Aggregate]) -> dict[SlotWindow, list[Aggregate]]:
    """Group the levels of each slot and window, those with reports only; earlier windows first."""
    groups: dict[SlotWindow, list[Aggregate]] = defaultdict(list)
    for one in aggregates:
        if one.num_reports:
            key = location_of(one)[1].slot, (one.first_day, one.last_day)
            groups[key].append(one)
    return dict(sorted(groups.items(), key=lambda item: _dates(item[0][1])))


def _dates(window: Window) -> tuple[date, date]:
    return window[0] or date.min, window[1] or date.min


def make_maps(groups: dict[SlotWindow, list[Aggregate]], options: DensityOptions) -> list[Density]:
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


def slot_changes(
    maps: Sequence[Density], groups: dict[SlotWindow, list[Aggregate]]
) -> dict[str, Change]:
    """Change of each slot from its first window to its last, where it has several."""
    finest = [max(found, key=lambda one: location_of(one)[1].level) for found in groups.values()]
    by_slot: dict[str, list[tuple[Density, Aggregate]]] = defaultdict(list)
    for one, aggregate in zip(maps, finest, strict=True):
        by_slot[location_of(aggregate)[1].slot].append((one, aggregate))
    return {slot: change(found[0], found[-1]) for slot, found in by_slot.items() if len(found) > 1}


def _asked(
    metric: str,
    listed: Sequence[dict[str, Any]],
    fetch: Fetch,
    window: Window,
    split: SplitName,
) -> dict[SlotWindow, list[Aggregate]]:
    """Fetch every sub-metric of a declared name, in each part of the window."""
    served = {row["name"]: row["served"] for row in listed if row["served"]}
    names = [name for name in served if name.partition("/")[0] == metric]
    if not names:
        raise DecodeError(
            f"no closed day of a location metric {metric!r} is served; see `rappor metrics list`"
        )
    found = []
    for name in names:
        days = [date.fromisoformat(served[name][key]) for key in ("first_day", "last_day")]
        for part in _parts(max(window[0] or days[0], days[0]), window[1] or days[1], split):
            try:
                found.append(fetch(name, *part))
            except RapporError as error:
                if split is SplitName.WHOLE:
                    raise
                _tell(f"{name}, {part[0]} to {part[1]}: {error}")
    return group_by_slot(found)


def _parts(first: date, last: date, split: SplitName) -> list[Window]:
    """Divide a window; the first and the last part may be short."""
    if split is SplitName.WHOLE:
        return [(first, last)]
    parts: list[Window] = []
    start = first
    while start <= last:
        end = min(_end_of_part(start, split), last)
        parts.append((start, end))
        start = end + timedelta(days=1)
    return parts


def _end_of_part(day: date, split: SplitName) -> date:
    if split is SplitName.DAY:
        return day
    if split is SplitName.WEEK:
        return day + timedelta(days=6 - day.weekday())
    following = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return following - timedelta(days=1)


def _remote(collector: str) -> Fetch:
    return lambda name, first, last: fetch_aggregate(collector, name, first=first, last=last)


def _stored(service: Any) -> Fetch:
    from collector.service.collector import COMMAND_LINE  # as in `opened`

    def fetch(name: str, first: date | None, last: date | None) -> Aggregate:
        found: Aggregate = service.read_aggregate(
            COMMAND_LINE, name, params_id=None, first=first, last=last
        )
        return found

    return fetch


def _read_points(path: Path | None) -> list[Point]:
    if path is None:
        return []
    with naming(path, DecodeError, "give a CSV with numbers in columns latitude and longitude"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        if not rows:
            raise DecodeError("no points; give a CSV with columns latitude and longitude")
        return [(_degrees(row, "latitude"), _degrees(row, "longitude")) for row in rows]


def _degrees(row: dict[str, str], column: str) -> float:
    text = row.get(column) or ""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{column} {shown(text)} is not a number") from error


def _region(one: Density, path: Path | None) -> set[str] | None:
    """The cells that are listed, or None for all."""
    if path is None:
        return None
    if is_of_pairs(one):
        raise DecodeError(f"--region {path}: trips are not in a region; leave the option out")
    places = one.places
    with naming(path, DecodeError, "give a GeoJSON Polygon, MultiPolygon or Feature that meets it"):
        polygon = json.loads(path.read_bytes())
        try:
            return set(region_cells(places.grid, places.levels[-1], polygon))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"not the members of a polygon: {error!r}") from error


def _write(maps: Sequence[Density], folder: Path, points: Sequence[Point], note: str) -> None:
    write_density_files(maps, folder)
    if is_of_pairs(maps[0]):
        return
    write_picture(maps, folder / "density.png", points)
    (folder / "density.html").write_text(render_page(maps, points, [note]), encoding="utf-8")


def _tell(text: str) -> None:
    Console(stderr=True).print(Text(text))
