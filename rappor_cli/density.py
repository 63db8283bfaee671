"""`rappor density METRIC`: where devices usually are, as maps with error bars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from decoder.density.maps import DensityOptions
from decoder.progress import Note, quiet
from decoder.sources.density_windows import (
    DayRange,
    LocationFiles,
    LocationSource,
    LocationWindows,
    SplitName,
    fetch_parts,
)
from decoder.workflows.maps import MapJob, run_maps, write_maps
from privacy_audit.findings import trackability_text
from rappor_cli import options as shared
from rappor_cli.density_tables import print_areas, print_json, print_maps
from rappor_cli.numbers import read_day
from rappor_cli.progress import stage_bars
from rappor_cli.store import need_one, opened
from rappor_cli.text import print_note
from rappor_core.aggregate import Aggregate

AREA_NAME = "name"


class MapMethodName(StrEnum):
    """Names of the methods that make a map from estimates (`--method`)."""

    FIELD = "field"
    HIERARCHY = "hierarchy"
    SIMPLEX = "simplex"


def density(
    metric: Annotated[str, typer.Argument(help="Its declared name, without slot and level.")],
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    split: Annotated[SplitName, typer.Option("--by", help="One map a part.")] = SplitName.WHOLE,
    slot: Annotated[list[str] | None, typer.Option(help="Only these slots.")] = None,
    method: Annotated[MapMethodName, typer.Option(help="Of the map.")] = MapMethodName.FIELD,
    level: shared.Level = 0.95,
    alpha: Annotated[
        float, typer.Option(help="False share among detected cells, and among changed ones.")
    ] = 0.05,
    repeats: shared.Repeats = None,
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
    areas: Annotated[
        Path | None,
        typer.Option(
            help="GeoJSON of named areas, as districts: shares with intervals.", exists=True
        ),
    ] = None,
    area_name: Annotated[
        str, typer.Option(help="Property of --areas that names them.")
    ] = AREA_NAME,
    output: shared.OutputFolder = None,
    every_window: Annotated[
        bool, typer.Option(help="All windows in the GeoJSON too, not only each slot's last.")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Map where devices usually are, by slot: table, CSV, Parquet, GeoJSON, PNG, HTML."""
    options = DensityOptions(method.value, level=level, alpha=alpha, repeats=repeats)
    window = read_day(first), read_day(last)
    if every_window and not output:
        raise typer.BadParameter("--every-window goes with -o DIR")
    if area_name != AREA_NAME and not areas:
        raise typer.BadParameter("--area-name goes with --areas FILE")
    job = MapJob(
        metric,
        _source(aggregate, collector, database, window, split),
        tuple(slot or ()),
        options,
        *_only_one(cells, region),
        points,
        base,
        areas,
        area_name,
    )
    with stage_bars() as progress:
        maps = run_maps(job, progress, print_note)
    tracked = "" if as_json and not output else trackability_text(maps.densities[0].metric)
    written = write_maps(maps, output, [tracked], every_window=every_window) if output else ()
    if as_json:
        print_json(maps.densities)
        return
    print_maps(maps.densities, tracked, maps.base)
    if maps.areas:
        print_areas(maps.densities, maps.areas, maps.area_notes)
    if output:
        print(f"files in {output}: {', '.join(written)}")


def _source(
    files: list[Path] | None,
    collector: str | None,
    database: str | None,
    window: DayRange,
    split: SplitName,
) -> LocationSource:
    """Files, a collector or its database."""
    need_one(collector, database, files or ())
    if files:
        if any(window) or split is not SplitName.WHOLE:
            raise typer.BadParameter(
                "--from, --to and --by ask a collector; each file is a window of its own"
            )
        return LocationFiles(tuple(files))
    if window[0] and window[1] and window[0] > window[1]:
        raise typer.BadParameter(f"--from {window[0]} is after --to {window[1]}")
    if collector:
        return LocationWindows(collector, window, split)
    return StoredWindows(str(database), window, split)


def _only_one(cells: Path | None, region: Path | None) -> tuple[Path | None, Path | None]:
    if cells and region:
        raise typer.BadParameter("give one of --cells and --region")
    return cells, region


@dataclass(frozen=True)
class StoredWindows:
    """The parts of a window, read from a collector's database."""

    database: str
    window: DayRange
    split: SplitName

    def read(self, metric: str, note: Note = quiet) -> Iterator[Aggregate]:
        """Read the aggregates of a location metric. Raises RapporError of the collector, and
        DecodeError."""
        from collector.domain.operations import COMMAND_LINE  # as in `opened`

        with opened(self.database) as service:

            def fetch(name: str, first: date | None, last: date | None) -> Aggregate:
                return service.read_aggregate(
                    COMMAND_LINE, name, params_id=None, first=first, last=last
                )

            listed = service.list_metrics()
            yield from fetch_parts(metric, listed, fetch, self.window, self.split, note)
