"""Places: cells hold their points, nest, tile the box; edges and mistakes have defined answers."""

import math
from decimal import Decimal
from functools import lru_cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decoder.grid_cells import cell_center, cell_outline, parent_cell, unrolled
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid, GridKind

CITY = Box(40.5, -74.3, 40.95, -73.65)
FIJI = Box(-21.0, 176.0, -12.0, -178.0)  # crosses the antimeridian
BOXES = [CITY, FIJI, Box(-85.0, -180.0, 85.0, 180.0)]
LEVELS: dict[GridKind, tuple[int, ...]] = {
    "quadkey": (2, 3, 5),
    "geohash": (1, 2, 3),
    "square": (0, 1, 3),
    "h3": (0, 1, 2),
}


def grid_over(kind: GridKind, box: Box) -> Grid:
    shape = (3, 4) if kind == "square" else (0, 0)
    return Grid(kind, box, LEVELS[kind], *shape)


@lru_cache
def domain(grid: Grid, level: int) -> frozenset[str]:
    return frozenset(grid.cells(level))


points = st.tuples(st.floats(0, 1), st.floats(0, 1))


def point_in(box: Box, at: tuple[float, float]) -> tuple[float, float]:
    latitude = min(box.south + at[0] * (box.north - box.south), box.north)
    longitude = box.west + at[1] * box.width
    return latitude, longitude - 360 if longitude > 180 else longitude


@pytest.mark.parametrize("kind", list(LEVELS))
@pytest.mark.parametrize("box", BOXES, ids=["city", "fiji", "world"])
@settings(max_examples=30, deadline=None)
@given(at=points)
def test_the_domain_holds_the_box_and_nests(kind, box, at) -> None:
    grid = grid_over(kind, box)
    latitude, longitude = point_in(box, at)
    assume(box.holds(latitude, longitude))
    values = [grid.place(latitude, longitude, level) for level in grid.levels]
    for level, value in zip(grid.levels, values, strict=True):
        assert value in domain(grid, level)
        assert value == parent_cell(grid, values[-1], level)
        assert grid.system.parse(value)[1] == level


@pytest.mark.parametrize("kind", ["quadkey", "geohash", "square"])
def test_cells_are_distinct_and_cover_the_box_once(kind) -> None:
    grid = grid_over(kind, CITY)
    cells = grid.cells(grid.finest)
    assert len(set(cells)) == len(cells)
    assert OTHER not in cells
    area = 0.0
    for cell in cells:
        (south, west), _, (north, east), _ = cell_outline(grid, cell)
        height = max(0.0, min(north, CITY.north) - max(south, CITY.south))
        area += height * max(0.0, min(east, CITY.east) - max(west, CITY.west))
    assert math.isclose(area, 0.45 * 0.65, rel_tol=1e-9)


@pytest.mark.parametrize("kind", list(LEVELS))
def test_only_names_of_cells_are_read(kind) -> None:
    grid = grid_over(kind, CITY)
    for level in grid.levels:
        for cell in grid.cells(level):
            code, parsed = grid.system.parse(cell)
            assert (grid.system.name(code, parsed), parsed) == (cell, level)
    for text in ("", "!", OTHER, "0-0", "1-99-0", "13-0-0", "-1-0-0", "4" * 30, "A" * 13, "8a2a"):
        with pytest.raises(ValueRefusedError):
            grid.system.parse(text)


@pytest.mark.parametrize(
    ("latitude", "longitude", "why"),
    [
        ("40.7", -74.0, "str and float"),
        (None, None, "NoneType"),
        (Decimal("40.7"), Decimal("-74.0"), "Decimal and Decimal"),
        (10**400, 2, "int and int"),
    ],
)
def test_what_is_no_point_is_refused_unseen(latitude, longitude, why) -> None:
    with pytest.raises(ValueRefusedError, match=why) as caught:
        Grid("quadkey", CITY, (12,)).locate(latitude, longitude)
    assert "73" not in str(caught.value)
    assert "40" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Box(40, 0, 91, 1), "north = 91"),
        (lambda: Box(40, math.nan, 41, 1), "west = nan"),
        (lambda: Box(40, True, 41, 1), "west = True"),
        (lambda: Grid("quadkey", CITY, ()), "levels"),
        (lambda: Grid("quadkey", Box(60, 0, 90, 10), (4,)), r"85\.0511"),
        (lambda: Grid("quadkey", CITY, (4,), 2, 2), "rows"),
        (lambda: Grid("square", CITY, (4,)), "rows = 0"),
        (lambda: Grid("quadkey", CITY, (24,)).cells(24), "at most 1,000,000"),
        (lambda: parent_cell(Grid("quadkey", CITY, (4,)), "032010", 9), "level 9"),
    ],
)
def test_bad_grids_are_named(make, why) -> None:
    with pytest.raises(ParameterError, match=why):
        make()


@pytest.mark.parametrize("kind", list(LEVELS))
def test_outlines_hold_over_the_antimeridian(kind) -> None:
    grid = grid_over(kind, FIJI)
    for cell in grid.cells(grid.finest):
        longitudes = [longitude for _, longitude in cell_outline(grid, cell)]
        assert 165 < min(longitudes) < max(longitudes) < 195  # 176 to 182, and a cell more
        assert -180 <= cell_center(grid, cell)[1] <= 180
    assert unrolled(grid, -179.0) == 181.0
    assert unrolled(grid, 179.0) == 179.0
    assert unrolled(grid_over(kind, CITY), -74.0) == -74.0
