"""Map jobs, from aggregates of a location metric to files: for the command line and a service.

Progress and notes come in as in `decoder.workflows.decoding`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from decoder.density.areas import Areas, AreaShares, area_shares, check_size
from decoder.density.cells import Places, location_of
from decoder.density.maps import Density, DensityOptions, estimate_density_series
from decoder.density.slots import slot_places
from decoder.errors import DecodeError
from decoder.files import replacing
from decoder.formats.density_inputs import read_areas, read_cells, read_points, read_region
from decoder.output.base_layer import BaseLayer, read_base
from decoder.progress import (
    Note,
    Progress,
    quiet,
    silent,
)
from decoder.sources.density_windows import Groups, LocationSource, SlotWindow, group_by_slot
from rappor_core.grid.box import Point

MAP_FILES = ("density.gpkg", "density.geojson", "density.png", "density.html")  # not of pairs


@dataclass(frozen=True)
class MapJob:
    """Maps of a location metric.

    metric: the declared name, without slot and level.  slots: those wanted, none for all.
    cells, region: files of the cells to show.  points, base: files of what to draw.  areas: a file
    of named areas; area_name: the property that names them.

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
    areas: Path | None = None
    area_name: str = "name"

    def __post_init__(self) -> None:
        """Refuse what would be ignored."""
        if self.cells and self.region:
            raise DecodeError("give a list of cells or a region, not both")


@dataclass(frozen=True)
class Maps:
    """The result of a MapJob: a map for each slot and window, and the layers to draw on them.

    areas: shares of named areas in each map, in their order; empty without areas.  area_notes: what
    a reader has to know of them.
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


def run_maps(
    job: MapJob,
    progress: Progress = silent,
    note: Note = quiet,
) -> Maps:
    """Read the aggregates of a location metric and make one map a slot and window.

    Args:
        job: what is wanted.
        progress: called for each map.
        note: called with a sentence on what was left out.

    Returns:
        The maps, in the order of windows and slots.

    Raises:
        RapporError: what the source, a file or the decoder refuse.
    """
    aggregates = list(job.source.read(job.metric, note))
    groups = group_by_slot(aggregates, job.metric, job.slots, note)
    points = read_points(job.points) if job.points else []
    base = read_base(job.base) if job.base else BaseLayer()
    named: tuple[Areas, tuple[str, ...]] | None = None
    if job.areas:  # before the long work: a file may be wrong
        first = next(iter(groups.values()))
        places = slot_places(first)
        check_size(first, places)
        named = read_areas(job.areas, places, job.area_name)
    densities = _densities(groups, job.options, progress)
    shares = _area_shares(groups, densities, named[0], progress) if named else []
    notes = named[1] if named else ()
    return Maps(_showing(densities, job), groups, points, base, shares, notes)


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
    from decoder.output.area_files import AREA_FILES, map_layers, write_areas
    from decoder.output.density_csv import write_density_files
    from decoder.output.density_html import render_page
    from decoder.output.density_png import write_picture
    from decoder.output.geo_files import write_geopackage

    densities = maps.densities
    write_density_files(densities, folder, every_window=every_window)
    names: tuple[str, ...] = ("density.csv", "density.parquet")
    if maps.areas:
        names = (*names, *write_areas(densities, maps.areas, folder))
    else:  # those of another run would seem to go with these maps
        _remove(folder, AREA_FILES)
    if densities[0].places.pairs:  # those of another metric would seem to go with the tables
        _remove(folder, MAP_FILES)
        return names
    with replacing(folder / "density.gpkg") as part:
        write_geopackage(part, map_layers(densities, maps.areas), str(densities[-1].last_day))
    with replacing(folder / "density.png") as part:
        write_picture(densities, part, maps.points, maps.base, maps.areas)
    with replacing(folder / "density.html") as part:
        page = render_page(
            densities, maps.points, [*maps.area_notes, *notes], maps.base, maps.areas
        )
        part.write_text(page, encoding="utf-8")
    return (*names, *MAP_FILES)


def _remove(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
