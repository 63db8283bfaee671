"""Grid cells on a map: functions that a decoder needs and a device does not."""

import json
from functools import lru_cache

from decoder.errors import DecodeError
from rappor_core.aggregate import Aggregate
from rappor_core.errors import ParameterError
from rappor_core.grid.box import Point
from rappor_core.grid.grid import MAX_PAIRS, Grid
from rappor_core.metrics.location import Location
from rappor_core.metrics.metric import Metric


def num_cells(grid: Grid, level: int) -> int:
    """Return the number of a level's cells in the box, estimated if there are too many to list."""
    about = grid.system.count_in_box(grid.box, level)
    return len(grid.cells(level)) if about <= MAX_PAIRS else about


def parent_cell(grid: Grid, name: str, level: int) -> str:
    """Return the cell of a coarser level that contains a cell. Raises ParameterError."""
    cell, finer = grid.system.parse(name)
    if level > finer:
        raise ParameterError(f"level {level} is finer than cell {name!r} of level {finer}")
    return grid.system.name(grid.system.parent(cell, finer, level), level)


def cell_outline(grid: Grid, name: str) -> tuple[Point, ...]:
    """Return the corners (latitude, longitude) of a cell, counter-clockwise.

    Longitudes are `unrolled`: beyond 180 if the box continues there, so that a map is contiguous.
    """
    corners = grid.system.outline(*grid.system.parse(name))
    turn = _turn(grid, sum(longitude for _, longitude in corners) / len(corners))
    return tuple((lat, lon + turn) for lat, lon in corners) if turn else corners


def unrolled(grid: Grid, longitude: float) -> float:
    """Return the longitude, shifted by 360 if that is nearer to the middle of the grid's box."""
    return longitude + _turn(grid, longitude)


def _turn(grid: Grid, longitude: float) -> int:
    return 360 * round((grid.box.west + grid.box.width / 2 - longitude) / 360)


def cell_center(grid: Grid, name: str) -> Point:
    """Return the mean of a cell's corners, its center on a map."""
    corners = cell_outline(grid, name)
    latitude, longitude = (sum(axis) / len(corners) for axis in zip(*corners, strict=True))
    return latitude, longitude - 360 * round(longitude / 360)


def location_of(aggregate: Aggregate) -> tuple[Metric, Location]:
    """Return the metric and `Location` of an aggregate. Raises DecodeError if the kind differs."""
    if not aggregate.definition:
        raise DecodeError(
            f"the aggregate of {aggregate.metric!r} does not carry its definition; "
            "fetch it from a collector that knows the metric"
        )
    metric = _defined(json.dumps(aggregate.definition, sort_keys=True))
    if metric.location is None:
        raise DecodeError(
            f"metric {metric.name!r} is of kind {metric.kind!r}; densities are for kind "
            "'location': use rappor decode"
        )
    return metric, metric.location


@lru_cache(maxsize=256)
def _defined(definition: str) -> Metric:
    """Parse a definition; cached, since many windows have the same one and a check takes 1 ms."""
    return Metric.from_dict(json.loads(definition))
