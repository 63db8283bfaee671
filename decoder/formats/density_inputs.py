"""Files that an analyst gives to `rappor density`: cells or a region to show, points to mark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from decoder.candidates.files import read_values
from decoder.density.areas import Areas
from decoder.density.cells import Places
from decoder.errors import CandidatesError, DecodeError, MissingColumnError
from decoder.files import naming
from decoder.grid_cells import listed_cells
from decoder.tables.reading import read_rows, read_table
from decoder.tables.vector_files import read_shapes
from rappor_core.grid.box import Point

if TYPE_CHECKING:  # it needs shapely, of the extra `geo`
    from decoder.density.outlines import Outline

CELL_COLUMN = "cell"  # of a table with a header, as in density.csv
_AREAS = "give a vector file of polygons with names, such as GeoJSON"


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
    suffixes = {suffix.lower() for suffix in path.suffixes}
    try:
        if not {".csv", ".parquet"} & suffixes:
            return list(read_values(path))
        return ["", *read_values(path, CELL_COLUMN)]
    except MissingColumnError:  # without a header: each line must begin with a cell
        return [row.text(1) for row in read_rows(path)]


def _text(entry: str | bytes) -> str:
    return entry.decode(errors="replace") if isinstance(entry, bytes) else entry


def read_region(path: Path, places: Places) -> tuple[str, ...]:
    """The cells that the polygons of a vector file touch. Raises DecodeError."""
    if places.pairs:
        raise DecodeError(f"--region {path}: trips are not in a region; leave the option out")
    with naming(path, DecodeError, "give a vector file of polygons"):
        shapes, _ = read_shapes(path)
        import shapely

        from decoder.density.outlines import region_cells, valid_area

        region = shapely.union_all([valid_area(shape.geometry) for shape in shapes])
        return region_cells(places.grid, places.levels[-1], region)


def read_areas(
    path: Path, places: Places, name_property: str = "name"
) -> tuple[Areas, tuple[str, ...]]:
    """Read named areas over all cells of the finest level, and what a reader has to know of them.

    Raises DecodeError that names the file.
    """
    if places.pairs:
        raise DecodeError(f"--areas {path}: trips are not in an area; leave the option out")
    cells = places.finest[: len(places.finest) - len(places.reserved)]
    with naming(path, DecodeError, _AREAS):
        shapes, system = read_shapes(path)
        from decoder.density.outlines import areas_of, outlines_of

        areas, notes = areas_of(places.grid, cells, outlines_of(shapes, name_property))
    moved = f"Coordinates were transformed to WGS 84 from the reference system {system}."
    return areas, (*notes, moved) if system else notes


def read_outlines(path: Path, name_property: str = "name") -> list[Outline]:
    """Read the named areas of a vector file, whatever the cells that they are for.

    Raises DecodeError that names the file.
    """
    with naming(path, DecodeError, _AREAS):
        shapes, _ = read_shapes(path)
        from decoder.density.outlines import outlines_of

        return outlines_of(shapes, name_property)


def outlines_json(outlines: Sequence[Outline]) -> str:
    """One text for the same areas in the same order: a FeatureCollection in which each has the
    property `name` alone."""
    from shapely.geometry import mapping

    features = [
        {"type": "Feature", "properties": {"name": one.name}, "geometry": mapping(one.geometry)}
        for one in outlines
    ]
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(collection, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


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
