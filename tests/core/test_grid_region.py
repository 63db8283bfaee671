"""Cells of a region: a box, a polygon with a hole."""

import json

import pytest
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from decoder.density.outlines import region_cells, valid_area
from decoder.errors import DecodeError
from decoder.tables.geo_files import read_shapes
from rappor_core.errors import ParameterError
from rappor_core.grid.box import Box
from rappor_core.grid.grid import Grid

GRID = Grid("square", Box(0, 0, 10, 10), (0,), rows=10, columns=10)


def ring(south: float, west: float, north: float, east: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def polygon(*rings: list[list[float]]) -> BaseGeometry:
    return shape({"type": "Polygon", "coordinates": list(rings)})


def test_a_region_takes_every_cell_that_it_touches() -> None:
    region = polygon(ring(2.5, 3.5, 3.5, 4.5))
    assert region_cells(GRID, 0, region) == ("0-2-3", "0-2-4", "0-3-3", "0-3-4")
    with pytest.raises(ParameterError, match="in common"):
        region_cells(Grid("quadkey", Box(0, 0, 10, 10), (6,)), 6, polygon(ring(40, 40, 50, 50)))


def test_polygons_take_cells_and_spare_holes() -> None:
    whole = region_cells(GRID, 0, polygon(ring(1.1, 1.1, 5.9, 5.9)))
    assert len(whole) == 25
    holed = region_cells(GRID, 0, polygon(ring(1.1, 1.1, 5.9, 5.9), ring(2.9, 2.9, 4.1, 4.1)))
    assert set(whole) - set(holed) == {"0-3-3"}


@pytest.mark.parametrize(
    ("geometry", "why"),
    [
        ({"type": "Point", "coordinates": [1, 2]}, "'Point'"),
        ({"type": "Feature", "geometry": None}, "'None'"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}, "closed linestring"),
        ({"type": "Polygon", "coordinates": [[["a", 0]]]}, "must be number"),
        ({"type": "Polygon", "coordinates": [[["0", "0"], ["1", "0"], ["1", "1"], ["0", "0"]]]},
         "must be number"),
        ({"type": "Polygon", "coordinates": [ring(0, 400, 1, 600)]}, "in degrees"),
        ({"type": "Polygon", "coordinates": [ring(400, 1, 500, 2)]}, "in degrees"),
        ({"type": "Polygon", "coordinates": []}, "contains no polygon"),
        ([1, 2], "not a GeoJSON"),
    ],
)  # fmt: skip
def test_other_geometries_are_refused(tmp_path, geometry, why) -> None:
    path = tmp_path / "region.geojson"
    path.write_text(json.dumps(geometry))
    with pytest.raises((DecodeError, ParameterError), match=why):
        valid_area(read_shapes(path)[0][0].geometry)


def test_a_region_may_exceed_the_grid() -> None:
    city = Grid("quadkey", Box(42.3, -72.6, 42.4, -72.5), (16,))
    assert set(region_cells(city, 16, polygon(ring(24, -125, 49, -66)))) == set(city.cells(16))


def test_a_narrow_region_takes_all_it_passes() -> None:
    aslant = [[0.5, 3.1], [9.5, 3.6], [9.5, 3.62], [0.5, 3.12], [0.5, 3.1]]
    assert region_cells(GRID, 0, polygon(aslant)) == tuple(f"0-3-{x}" for x in range(10))


@pytest.mark.parametrize(
    ("kind", "level", "shape"),
    [("square", 0, (9, 6)), ("quadkey", 8, ()), ("geohash", 3, ()), ("h3", 3, ())],
)
def test_regions_on_both_sides_of_the_antimeridian(kind, level, shape) -> None:  # type: ignore[no-untyped-def]
    grid = Grid(kind, Box(-21, 176, -12, -178), (level,), *shape)
    west = region_cells(grid, level, polygon(ring(-20, 176.5, -13, 179.9)))
    east = region_cells(grid, level, polygon(ring(-20, -179.9, -13, -178.5)))
    on = region_cells(grid, level, polygon(ring(-20, 180.1, -13, 181.5)))
    assert east == on
    assert grid.place(-15, 178, level) in set(west) - set(east)
    assert grid.place(-15, -178.7, level) in set(east) - set(west)
