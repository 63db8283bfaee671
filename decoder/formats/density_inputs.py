"""Input files for maps and flows: a region to show, named areas, points and known flows.

Known flows are a matrix such as the last census: a CSV file of origin,destination,count."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decoder.density.areas import Areas
from decoder.density.cells import Places
from decoder.errors import CountsError, DecodeError
from decoder.files import naming
from decoder.progress import Note, quiet
from decoder.tables.geo_files import read_shapes
from decoder.tables.reading import read_table
from decoder.typing import Floats
from rappor_core.errors import shown
from rappor_core.grid.box import OTHER, Point
from rappor_core.metrics.flow import Flow

_AREAS = "give a vector file of polygons with names, such as GeoJSON"


def read_region(path: Path, places: Places) -> tuple[str, ...]:
    """Return the cells that the polygons of a vector file touch. Raises DecodeError if invalid."""
    if places.pairs:
        raise DecodeError(f"--region {path}: trips have no region; omit this option")
    with naming(path, DecodeError, "give a vector file of polygons"):
        shapes, _ = read_shapes(path)
        import shapely

        from decoder.density.outlines import region_cells, valid_area

        region = shapely.union_all([valid_area(shape.geometry) for shape in shapes])
        return region_cells(places.grid, places.levels[-1], region)


def read_areas(
    path: Path, places: Places, name_property: str = "name"
) -> tuple[Areas, tuple[str, ...]]:
    """Read named areas over a map's cells, with notes about their shares. Raises DecodeError."""
    if places.pairs:
        raise DecodeError(f"--areas {path}: trips have no area; omit this option")
    cells = places.finest[: len(places.finest) - len(places.reserved)]
    with naming(path, DecodeError, _AREAS):
        shapes, system = read_shapes(path)
        from decoder.density.outlines import areas_of, outlines_of

        areas, notes = areas_of(places.grid, cells, outlines_of(shapes, name_property))
    moved = f"Coordinates were transformed to WGS 84 from the reference system {system}."
    return areas, (*notes, moved) if system else notes


def read_outlines(path: Path, name_property: str = "name") -> list[Any]:
    """Read the named areas (`Outline`) in a vector file. Raises DecodeError if invalid."""
    with naming(path, DecodeError, _AREAS):
        shapes, _ = read_shapes(path)
        from decoder.density.outlines import outlines_of

        return outlines_of(shapes, name_property)


def outlines_json(outlines: Sequence[Any]) -> str:
    """Return the areas as canonical GeoJSON, in order, with the name as the only property."""
    from shapely.geometry import mapping

    features = [
        {
            "type": "Feature",
            "properties": {"name": outline.name},
            "geometry": mapping(outline.geometry),
        }
        for outline in outlines
    ]
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(collection, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_points(path: Path) -> list[Point]:
    """Read (latitude, longitude) of points to mark on a map. Raises DecodeError if invalid."""
    with naming(path, DecodeError, "give a CSV with numbers in columns latitude and longitude"):
        points = [
            (row.number("latitude", -90, 90), row.number("longitude", -360, 360))
            for row in read_table(path, ["latitude", "longitude"])
        ]
        if not points:
            raise DecodeError("no points; give a CSV with columns latitude and longitude")
        return points


COLUMNS = ("origin", "destination", "count")
_WAY_OUT = "give a UTF-8 CSV with columns origin, destination and count"


def read_known_flows(path: Path, flow: Flow, note: Note = quiet) -> Floats:
    """Read a known matrix: the count of each (origin, destination) pair, row by row, (P,).

    Args:
        path: The file, as for `read_flow_counts`.
        flow: The flow settings whose cells are named; any other name counts as `other`.
        note: A callback, called with a sentence about unknown names.

    Raises:
        CountsError: The file is invalid (`read_flow_counts`), or names no cell.
    """
    counts, unknown = np.zeros((flow.num_sides, flow.num_sides)), set[str]()
    for pair, count in read_flow_counts(path).items():
        unknown |= {name for name in pair if name not in flow.side_index}
        origin, destination = (flow.side_index.get(name, flow.side_index[OTHER]) for name in pair)
        counts[origin, destination] += count
    if not counts[: len(flow.cells), : len(flow.cells)].any():
        raise CountsError(
            f"{path}: no count of a pair of this metric's cells, such as {flow.cells[0]!r}: name "
            "cells as flows.csv does"
        )
    if unknown:
        note(
            f"{path}: names of no cell of this metric ({len(unknown):,}, such as "
            f"{shown(min(unknown))}) count as {OTHER!r}"
        )
    return counts.ravel()


def read_flow_counts(path: Path) -> dict[tuple[str, str], float]:
    """Read the count of each (origin name, destination name); repeated pairs are summed.

    Raises CountsError if a column is missing, a count is not a number of 0 or more, or all are 0.
    """
    counts: dict[tuple[str, str], float] = {}
    with naming(path, CountsError, _WAY_OUT):
        for row in read_table(path, COLUMNS):
            pair = row.text("origin", strip=True), row.text("destination", strip=True)
            counts[pair] = counts.get(pair, 0.0) + row.number("count", low=0)
        if not 0 < sum(counts.values()) < math.inf:
            raise CountsError("the counts add up to 0, or are too large for a number")
    return counts


def flow_counts_csv(counts: Mapping[tuple[str, str], float]) -> str:
    """Return counts by the names of both sides as a CSV that `read_flow_counts` reads."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((*pair, repr(count)) for pair, count in sorted(counts.items()))
    return file.getvalue()
