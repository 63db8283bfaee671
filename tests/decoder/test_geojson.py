"""Cells as GeoJSON: closed, counter-clockwise, cut where they cross 180 degrees (RFC 7946)."""

import json
from itertools import pairwise

import pytest

from decoder.density.maps import Density, estimate_density
from decoder.grid_cells import cell_outline
from decoder.output.density_csv import geometry
from decoder.output.density_html import map_data
from decoder.output.map_picture import WIDTH, map_picture
from rappor_core.grid.box import Box
from rappor_core.grid.grid import Grid
from rappor_core.metrics.file import parse_metrics
from tests.map_pages import render_maps
from tests.places_support import LocationCounts

FIJI = Box(-21, 176, -12, -178)


def area(ring: list[list[float]]) -> float:
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring)) / 2


def rings(shape: dict) -> list[list[list[float]]]:  # type: ignore[type-arg]
    parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
    assert all(len(part) == 1 for part in parts)
    return [part[0] for part in parts]


@pytest.mark.parametrize(
    ("kind", "level", "shape"),
    [("square", 0, (3, 4)), ("quadkey", 8, ()), ("geohash", 3, ()), ("h3", 3, ())],
)
def test_cells_are_whole_and_counter_clockwise(kind, level, shape) -> None:  # type: ignore[no-untyped-def]
    grid, crossing = Grid(kind, FIJI, (level,), *shape), 0
    for cell in grid.cells(level):
        outline = cell_outline(grid, cell)
        found = rings(geometry(outline))
        crossing += len(found) == 2
        assert all(ring[0] == ring[-1] and area(ring) > 0 for ring in found)
        assert all(-180 <= x <= 180 and -90 <= y <= 90 for ring in found for x, y in ring)
        closed = [[lon, lat] for lat, lon in (*outline, outline[0])]
        assert sum(map(area, found)) == pytest.approx(area(closed), rel=1e-4)
    assert bool(crossing) == (kind in ("square", "h3"))  # the others have an edge there


def over_the_antimeridian(kind: str, more: str) -> Density:
    text = (
        '[metrics.places]\nkind = "location"\ndescription = "x"\nowner = "x"\n'
        f'expires = 2099-01-01\ngrid = "{kind}"\nbox = [-21, 176, -12, -178]\n{more}'
        'mode = "once"\nencoding = "one_hot"\nepsilon = 2.0\n'
    )
    tally = LocationCounts(parse_metrics(text).declared[0])
    tally.reports += 1_000
    cells = tally.bits.shape[1] - 1
    tally.bits += [*range(100, 100 + 10 * cells, 10), 300]
    return estimate_density([tally.aggregate()])


def test_its_map_is_consistent_points_included() -> None:
    one = over_the_antimeridian("quadkey", "levels = [6]\n")
    page = render_maps([one], [(-15.0, -179.0), (-15.0, 178.0)])
    start = page.index('id="data">') + 10
    data = json.loads(page[start : page.index("</script>", start)])
    assert data["points"] == [[181.0, -15.0], [178.0, -15.0]]
    longitudes = [x for ring in data["cells"] for x, _ in ring]
    assert 168 < min(longitudes) < max(longitudes) < 192
    ((x, _),) = map_picture(map_data([one], [(-15.0, -179.0)]))["spots"]
    assert 0 < x < WIDTH
