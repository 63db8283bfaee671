"""What an analyst sees: colors, the land around, names, and the first view."""

import itertools
import json
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from decoder.density.cells import Places
from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.errors import DecodeError
from decoder.grid_cells import cell_outline
from decoder.output.basemap import BaseLayer, read_base
from decoder.output.density_csv import cell_size, density_table, geometry
from decoder.output.density_html import drawn_shares, map_data, positions
from decoder.output.jinja import DETECTED_FROM, THEMES, UNDETECTED_TO, colors, rgb
from decoder.output.map_picture import WIDTH, map_picture, write_picture
from decoder.tables.geo_files import well_known_binary
from rappor_core.grid.box import Box
from rappor_core.grid.grid import Grid
from rappor_core.metrics.file import parse_metrics
from tests.decoder.test_density import BLOOM, BOTH, ONE_HOT, drawn, parts
from tests.map_pages import data_of, render_maps, write_maps
from tests.metric_texts import declaration
from tests.places_support import LocationCounts


@pytest.fixture(scope="module")
def night() -> Density:
    rng = np.random.default_rng(1)
    return estimate_density([drawn(parts(BOTH + BLOOM)[0], 40_000, rng)], DensityOptions("simplex"))


def luminance(color: Any) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


def contrast(a: Any, b: Any) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", list(THEMES))
def test_more_is_always_further_from_the_ground(theme: str) -> None:
    scale = colors(np.linspace(0, 1, 256), theme)
    ground = rgb(THEMES[theme]["land"])
    away = [contrast(color, ground) for color in scale]
    assert away[0] == pytest.approx(1)
    assert all(a < b for a, b in itertools.pairwise(away))
    assert away[-1] > 10
    assert away[round(255 * UNDETECTED_TO)] < 1.6  # fades into the ground
    assert contrast(scale[round(255 * DETECTED_FROM)], scale[round(255 * UNDETECTED_TO)]) > 1.15


@pytest.mark.parametrize("theme", list(THEMES))
def test_text_and_outlines_can_be_read(theme: str) -> None:
    """WCAG 2.2: 4.5 to 1 for text, 3 to 1 for parts of a picture."""
    least = [("warn", "warn-ground", 4.5), ("edge", "paper", 3), ("truth", "paper", 3)]
    for ground in ("paper", "land", "water"):
        least += [("ink", ground, 7), ("mark", ground, 3)]
    for ground in ("paper", "ground"):
        least += [(name, ground, 4.5) for name in ("faint", "brand", "mark", "good", "bad")]
    for name, ground, ratio in least:
        assert contrast(rgb(THEMES[theme][name]), rgb(THEMES[theme][ground])) > ratio, name


def test_cells_without_evidence_are_never_darker(night: Density) -> None:
    shares = night.shares.copy()
    result = int(np.flatnonzero(night.detected[:-1])[0])
    shares[result] = 0.0  # the map knows nothing of a cell whose interval excludes zero
    one = replace(night, shares=shares)
    places = positions(one, float(drawn_shares(one).max()))
    seen = one.detected[:-1]
    assert places[seen].min() >= DETECTED_FROM > UNDETECTED_TO >= places[~seen].max()
    assert drawn_shares(one)[result] == one.low[result] > 0


def test_the_size_of_a_cell_takes_one_outline(night: Density) -> None:
    """It is asked for every cell that is named: of 3,600, with all outlines, for three minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Places, "outlines", None)
        assert cell_size(night) == pytest.approx((110.86, 111.2), abs=0.01)


def feature(name: str, kind: str, coordinates: Any) -> dict[str, Any]:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": {"name": name}, "geometry": geometry}


def base_file(folder: Path, shapes: list[Any]) -> Path:
    path = folder / "base.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    return path


def test_hostile_names_of_a_base_are_text(night: Density, tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=alert(1)>\x1b[31m" + "x" * 99
    square = [[[0, 0], [8, 0], [8, 8], [0, 8], [0, 0]]]
    shapes = [feature(bad, "Polygon", square), feature(bad, "Point", [1, 1])]
    base = read_base(base_file(tmp_path, shapes))
    page = render_maps([night], base=base)
    assert "<img src=x" not in page
    assert page.count("</script>") == 3  # data, Leaflet, map.js
    (name,) = set(data_of(page)["called"].values())
    assert len(name) == 60
    assert name.startswith("</script><img")
    assert name.isprintable()
    write_picture(map_data([night], base=base), tmp_path / "map.svg")
    assert "<img" not in (tmp_path / "map.svg").read_text()


@pytest.mark.parametrize(
    "text",
    ["{}", "x", '{"type": "Point", "coordinates": [1, 91]}',
     '{"type": "Point", "coordinates": [NaN, 1]}', '{"type": "LineString", "coordinates": [1]}'],
)  # fmt: skip
def test_a_base_of_no_geojson_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(DecodeError, match=r"base\.json"):
        read_base(path)


def test_shapes_of_a_base_without_corners_are_left_out(tmp_path: Path) -> None:
    empty = [feature("x", kind, []) for kind in ("Point", "LineString", "Polygon", "MultiPolygon")]
    some = base_file(tmp_path, [*empty, feature("y", "Point", [1, 2])])
    assert read_base(some) == BaseLayer(points=[("y", [1.0, 2.0])])
    with pytest.raises(DecodeError, match=r"base\.json: 0 corners"):
        read_base(base_file(tmp_path, empty))


@pytest.fixture(scope="module")
def night_of_geo_files() -> Density:
    rng = np.random.default_rng(1)
    return estimate_density(
        [drawn(parts(BOTH + ONE_HOT)[0], 9_000, rng)], DensityOptions("simplex")
    )


def read_wkb(data: bytes, at: int = 0) -> tuple[str, Any, int]:
    """Type, coordinates and where it ends, of little-endian well-known binary."""
    order, kind = struct.unpack_from("<BI", data, at)
    assert order == 1
    at += 5
    if kind == 1:
        return "Point", struct.unpack_from("<2d", data, at), at + 16
    (count,) = struct.unpack_from("<I", data, at)
    at += 4
    if kind == 2:
        points = struct.unpack_from(f"<{2 * count}d", data, at)
        return "LineString", list(zip(points[::2], points[1::2], strict=True)), at + 16 * count
    found = []
    for _ in range(count):
        if kind == 3:
            (corners,) = struct.unpack_from("<I", data, at)
            flat = struct.unpack_from(f"<{2 * corners}d", data, at + 4)
            found.append(list(zip(flat[::2], flat[1::2], strict=True)))
            at += 4 + 16 * corners
        else:
            _, part, at = read_wkb(data, at)
            found.append(part)
    return {3: "Polygon", 4: "MultiPoint", 5: "MultiLineString", 6: "MultiPolygon"}[kind], found, at


@pytest.mark.parametrize(
    "geometry",
    [
        {"type": "Point", "coordinates": (1.5, -2.0)},
        {"type": "LineString", "coordinates": [(0.0, 1.0), (2.0, 3.0)]},
        {"type": "Polygon", "coordinates": [[(0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (0.0, 0.0)],
                                            [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (1.0, 1.0)]]},
        {"type": "MultiPolygon", "coordinates": [[[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0),
                                                   (0.0, 0.0)]]]},
    ],
)  # fmt: skip
def test_well_known_binary_says_what_geojson_said(geometry: dict[str, Any]) -> None:
    data = well_known_binary(geometry)
    assert read_wkb(data) == (geometry["type"], geometry["coordinates"], len(data))


def test_the_parquet_file_is_geoparquet(night_of_geo_files: Density, tmp_path: Path) -> None:
    some = night_of_geo_files.showing(night_of_geo_files.cells[2:5])
    for number, one in enumerate((night_of_geo_files, some)):
        path = write_maps([one], tmp_path / str(number))[1]
        table = parquet.read_table(path)
        geo = json.loads(table.schema.metadata[b"geo"])
        assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
        column = geo["columns"]["geometry"]
        assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Polygon"])
        assert table.drop_columns("geometry").equals(density_table([one]))
        for row in table.to_pylist():
            assert (row["geometry"] is None) == (row["latitude"] is None)
            if row["geometry"]:
                ring = read_wkb(row["geometry"])[1][0]
                assert np.mean([y for _, y in ring[:-1]]) == pytest.approx(row["latitude"])
                assert np.mean([x for x, _ in ring[:-1]]) == pytest.approx(row["longitude"])
    assert column["bbox"][0] >= 0


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


def over_the_antimeridian() -> Density:
    text = declaration(
        "places", "location", grid="quadkey", box=[-21, 176, -12, -178], levels=[6], mode="once",
        encoding="one_hot", epsilon=2.0,
    )  # fmt: skip
    tally = LocationCounts(parse_metrics(text).declared[0])
    tally.reports += 1_000
    cells = tally.bits.shape[1] - 1
    tally.bits += [*range(100, 100 + 10 * cells, 10), 300]
    return estimate_density([tally.aggregate()])


def test_its_map_is_consistent_points_included() -> None:
    one = over_the_antimeridian()
    data = data_of(render_maps([one], [(-15.0, -179.0), (-15.0, 178.0)]))
    assert data["points"] == [[181.0, -15.0], [178.0, -15.0]]
    longitudes = [x for ring in data["cells"] for x, _ in ring]
    assert 168 < min(longitudes) < max(longitudes) < 192
    ((x, _),) = map_picture(map_data([one], [(-15.0, -179.0)]))["spots"]
    assert 0 < x < WIDTH
