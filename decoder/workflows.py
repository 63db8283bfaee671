"""Whole jobs, from a source of aggregates to files: what the command line and a service share.

Progress, notes and cancellation come in as functions. Errors are RapporError; between two stages,
and whenever a stage moves, a job that should stop raises CancelledError.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from decoder.candidates.cache import cached_positions
from decoder.candidates.files import column_taken
from decoder.candidates.lists import Candidates, metric_candidates
from decoder.density.cells import Places, location_of
from decoder.density.map_change import MapChange, compare_maps
from decoder.density.maps import Density, DensityOptions, estimate_density_series
from decoder.density.slots import slot_places
from decoder.errors import CandidatesError, DecodeError
from decoder.files import make_folder, replacing
from decoder.formats.density_inputs import read_cells, read_points, read_region
from decoder.formats.google_rappor import read_map, write_metrics_json
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from decoder.progress import (
    Cancelled,
    Note,
    Progress,
    check_cancelled,
    never,
    quiet,
    silent,
    watched,
)
from decoder.reports.base_layer import BaseLayer, read_base
from decoder.reports.decoding_files import write_outputs
from decoder.reports.series_files import write_series
from decoder.results.tables import Decoding
from decoder.series.series import Series, decode_over_time
from decoder.sources.aggregates import AggregateSource, GoogleTables
from decoder.sources.density_windows import Groups, LocationSource, SlotWindow, group_by_slot
from decoder.sources.windows import Each
from rappor_core.aggregate import Aggregate
from rappor_core.grid.box import Point

MAP_FILES = ("density.geojson", "density.png", "density.html")  # not of pairs


@dataclass(frozen=True)
class CandidateChoice:
    """The list to look for: one of file, numbers, dates and map_file, or else the metric's own.

    file: of values, with the column of a table.  numbers: first, last and perhaps a step.
    dates: first and last.  map_file: google/rappor's map.csv.  cache: a folder that keeps the bits
    of long lists.

    Raises CandidatesError for more than one, or for a cache of bits that are given.
    """

    file: Path | None = None
    column: str | None = None
    numbers: tuple[int, ...] | None = None
    dates: tuple[date, ...] | None = None
    map_file: Path | None = None
    cache: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what would be ignored."""
        given = (self.file, self.numbers, self.dates, self.map_file)
        if sum(one is not None for one in given) > 1:
            raise CandidatesError("give one of a file of candidates, numbers, dates and a map")
        if self.map_file and self.cache:
            raise CandidatesError("a cache keeps bits that are hashed; those of a map are given")


@dataclass(frozen=True)
class DecodeJob:
    """A decoding, or by `each` a series of them; `output`: the folder of its files."""

    source: AggregateSource
    candidates: CandidateChoice = field(default_factory=CandidateChoice)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    output: Path | None = None


@dataclass(frozen=True)
class MapJob:
    """Maps of a location metric.

    metric: the declared name, without slot and level.  slots: those wanted, none for all.
    cells, region: files of the cells to show.  points, base: files of what to draw.

    Raises DecodeError for both `cells` and `region`.
    """

    metric: str
    source: LocationSource
    slots: tuple[str, ...] = ()
    options: DensityOptions = field(default_factory=DensityOptions)
    cells: Path | None = None
    region: Path | None = None
    points: Path | None = None
    base: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what would be ignored."""
        if self.cells and self.region:
            raise DecodeError("give a list of cells or a region, not both")


@dataclass(frozen=True)
class Maps:
    """What a MapJob found: a map a slot and window, and what is to be drawn on them."""

    densities: list[Density]
    groups: Groups
    points: list[Point] = field(default_factory=list)
    base: BaseLayer = field(default_factory=BaseLayer)

    def changes(self) -> dict[str, MapChange]:
        """Change of each slot from its first window to its last, where it has several."""
        finest = [
            max(found, key=lambda one: location_of(one)[1].level) for found in self.groups.values()
        ]
        by_slot: dict[str, list[tuple[Density, Aggregate]]] = defaultdict(list)
        for one, aggregate in zip(self.densities, finest, strict=True):
            by_slot[one.location.slot].append((one, aggregate))
        return {
            slot: compare_maps(all_[0], all_[-1]) for slot, all_ in by_slot.items() if len(all_) > 1
        }


def run_decode(
    job: DecodeJob,
    progress: Progress = silent,
    note: Note = quiet,
    cancelled: Cancelled = never,
) -> Decoding:
    """Read the aggregate, take the candidates, decode, and write the files.

    Args:
        job: what is wanted.
        progress: told of each stage as it moves.
        note: told what was left out or taken.
        cancelled: asked between stages whether to stop.

    Returns:
        The decoding; it is in the files, too, if the job names a folder.

    Raises:
        CancelledError: `cancelled` said so.
        RapporError: what the source, the candidates, the decoder or the disk refuse.
    """
    started = time.monotonic()
    progress = watched(progress, cancelled)
    check_cancelled(cancelled, "the counts were read")
    source = job.source.read()
    candidates = _prepared(job, source, progress, note, cancelled)
    decoding = decode(source, candidates, job.options, progress)
    if job.output:
        check_cancelled(cancelled, "the files were written")
        write_outputs(decoding, job.output, progress)
        if isinstance(job.source, GoogleTables):
            elapsed = time.monotonic() - started
            write_metrics_json(decoding, elapsed, job.output / "metrics.json")
    return decoding


def run_series(
    job: DecodeJob,
    each: Each,
    progress: Progress = silent,
    note: Note = quiet,
    cancelled: Cancelled = never,
) -> Series:
    """As `run_decode`, for a series of windows of length `each`."""
    progress = watched(progress, cancelled)
    windows = []
    for window in job.source.windows(each, note):
        windows.append(window)
        check_cancelled(cancelled, "all windows were read")
    candidates = _prepared(job, windows[0], progress, note, cancelled)
    series = decode_over_time(windows, candidates, job.options, progress)
    if job.output:
        check_cancelled(cancelled, "the files were written")
        write_series(series, job.output)
        write_outputs(series.whole, job.output, progress)
    return series


def _prepared(
    job: DecodeJob, source: Aggregate, progress: Progress, note: Note, cancelled: Cancelled
) -> Candidates:
    """The candidates; the folder is made before the work, to find out whether it can be."""
    check_cancelled(cancelled, "the candidates were read")
    candidates = chosen_candidates(source, job.candidates, progress, note)
    if job.output:
        make_folder(job.output)
    check_cancelled(cancelled, "the counts were decoded")
    return candidates


def chosen_candidates(
    source: Aggregate, choice: CandidateChoice, progress: Progress = silent, note: Note = quiet
) -> Candidates:
    """The list that was chosen, or the metric's own values; `note` is told the column taken.

    Raises CandidatesError, or CacheError for the cache's folder.
    """
    if choice.map_file:
        return read_map(choice.map_file, source.params)
    taken: str | None = None
    if choice.file:
        listed = Candidates.from_file(choice.file, choice.column)
        taken = column_taken(choice.file, choice.column)
    elif choice.numbers is not None:
        listed = Candidates.numbers(*choice.numbers)
    elif choice.dates is not None:
        listed = Candidates.dates(*choice.dates)
    else:
        listed = metric_candidates(source)
    if taken:
        note(taken)
    if not choice.cache:
        return listed
    listed, damaged = cached_positions(listed, source.params, choice.cache, progress)
    if damaged:
        note(damaged)
    return listed


def run_maps(
    job: MapJob,
    progress: Progress = silent,
    note: Note = quiet,
    cancelled: Cancelled = never,
) -> Maps:
    """Read the aggregates of a location metric and make one map a slot and window.

    Args:
        job: what is wanted.
        progress: told of each map.
        note: told what was left out.
        cancelled: asked between stages, and between maps, whether to stop.

    Returns:
        The maps, in the order of windows and slots.

    Raises:
        CancelledError: `cancelled` said so.
        RapporError: what the source, a file or the decoder refuse.
    """
    aggregates = []
    check_cancelled(cancelled, "the counts were read")
    for one in job.source.read(job.metric, note):
        aggregates.append(one)
        check_cancelled(cancelled, "all counts were read")
    groups = group_by_slot(aggregates, job.metric, job.slots, note)
    points = read_points(job.points) if job.points else []
    base = read_base(job.base) if job.base else BaseLayer()
    densities = _densities(groups, job.options, watched(progress, cancelled))
    return Maps(_showing(densities, job), groups, points, base)


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


def _showing(maps: list[Density], job: MapJob) -> list[Density]:
    """The maps with only the cells of a list or of a region, where one was given."""
    places = maps[0].places
    if job.cells:
        chosen = read_cells(job.cells, places)
    elif job.region:
        chosen = read_region(job.region, places)
    else:
        return maps
    return [one.showing(chosen) for one in maps]


def write_maps(
    maps: Maps, folder: Path, notes: Sequence[str] = (), *, every_window: bool = False
) -> tuple[str, ...]:
    """Write tables, GeoJSON, picture and page of maps; return the names of the files.

    Args:
        maps: as `run_maps` gives them.
        folder: made if it is missing.
        notes: paragraphs for the page.
        every_window: all windows in the GeoJSON, not only the last of each slot.

    Raises:
        OutputError: a file cannot be written.
    """
    # Here: a second of libraries that a table does not need.
    from decoder.reports.density_csv import write_density_files
    from decoder.reports.density_html import render_page
    from decoder.reports.density_png import write_picture

    densities = maps.densities
    write_density_files(densities, folder, every_window=every_window)
    names = ("density.csv", "density.parquet")
    if densities[0].places.pairs:  # those of another metric would seem to go with the tables
        for name in MAP_FILES:
            (folder / name).unlink(missing_ok=True)
        return names
    with replacing(folder / "density.png") as part:
        write_picture(densities, part, maps.points, maps.base)
    with replacing(folder / "density.html") as part:
        page = render_page(densities, maps.points, list(notes), maps.base)
        part.write_text(page, encoding="utf-8")
    return (*names, *MAP_FILES)
