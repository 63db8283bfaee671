"""Files that an analyst gives to `rappor density`: cells or a region to show, points to mark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from decoder.candidates.files import read_values
from decoder.density.areas import Areas
from decoder.density.cells import Places
from decoder.density.polygon_weights import Outline, areas_of, in_words, outlines_of
from decoder.density.regions import listed_cells, region_cells
from decoder.errors import CandidatesError, DecodeError, MissingColumnError
from decoder.files import naming
from decoder.tables.reading import read_table
from rappor_core.grid.box import Point

MOST_BYTES = 32 * 2**20  # of a file of areas
CELL_COLUMN = "cell"  # of a table with a header, as in density.csv
Read = TypeVar("Read")


def read_cells(path: Path, places: Places) -> tuple[str, ...]:
    """The cells of a list."""
    if places.pairs:
        raise DecodeError(f"--cells {path}: the values are trips, not cells; leave the option out")
    way_out = f"give a cell a line, or a table with a column {CELL_COLUMN!r}"
    with naming(path, CandidatesError, way_out):
        lines = (_text(entry) for entry in _entries(path))
        return listed_cells(places.grid, places.levels[-1], lines)


def _entries(path: Path) -> list[str | bytes]:
    """One a line; in place of a header a blank one."""
    if {".csv", ".parquet"} & {suffix.lower() for suffix in path.suffixes}:
        try:
            return ["", *read_values(path, CELL_COLUMN)]
        except MissingColumnError:  # a list without a header
            return list(read_values(path))
    return list(read_values(path))


def _text(entry: str | bytes) -> str:
    return entry.decode(errors="replace") if isinstance(entry, bytes) else entry


def read_region(path: Path, places: Places) -> tuple[str, ...]:
    """The cells that a polygon touches."""
    if places.pairs:
        raise DecodeError(f"--region {path}: trips are not in a region; leave the option out")
    with naming(path, DecodeError, "give a GeoJSON Polygon, MultiPolygon or Feature that meets it"):
        polygon = json.loads(path.read_bytes())
        try:
            return region_cells(places.grid, places.levels[-1], polygon)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError("its members are not those of a polygon") from error


def read_areas(
    path: Path, places: Places, name_property: str = "name"
) -> tuple[Areas, tuple[str, ...]]:
    """Read named areas over all cells of the finest level, and what a reader has to know of them.

    Raises DecodeError that names the file.
    """
    if places.pairs:
        raise DecodeError(f"--areas {path}: trips are not in an area; leave the option out")
    cells = places.finest[: len(places.finest) - len(places.reserved)]

    def read(collection: Any) -> tuple[Areas, int]:
        return areas_of(places.grid, cells, collection, name_property)

    areas, outside = _of_areas(path, read)
    return areas, in_words(areas, outside)


def read_outlines(path: Path, name_property: str = "name") -> list[Outline]:
    """Read the named areas of a file, whatever the cells that they are for.

    Raises DecodeError that names the file.
    """
    return _of_areas(path, lambda collection: outlines_of(collection, name_property))


def outlines_json(outlines: Sequence[Outline]) -> str:
    """One text for the same areas in the same order: a FeatureCollection in which each has the
    property `name` alone."""
    features = [
        {"type": "Feature", "properties": {"name": one.name},
         "geometry": {name: one.geometry[name] for name in ("type", "coordinates")}}
        for one in outlines
    ]  # fmt: skip
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(collection, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _of_areas(path: Path, read: Callable[[Any], Read]) -> Read:
    """What `read` makes of the collection in a file of areas."""
    with naming(path, DecodeError, "give a GeoJSON FeatureCollection of polygons with names"):
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MB; simplify the outlines")
        try:
            return read(json.loads(path.read_bytes()))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError("its members are not those of a polygon") from error
        except RecursionError as error:
            raise ValueError("its brackets are nested too deeply") from error


def read_points(path: Path) -> list[Point]:
    """Read latitudes and longitudes of points to mark on a map."""
    with naming(path, DecodeError, "give a CSV with numbers in columns latitude and longitude"):
        points = [
            (row.number("latitude", -90, 90), row.number("longitude", -360, 360))
            for row in read_table(path, ["latitude", "longitude"])
        ]
        if not points:
            raise DecodeError("no points; give a CSV with columns latitude and longitude")
        return points
