"""Districts as strangers draw them: united, transformed or refused by name, never wrong silently.

Seen at natcap/invest #1310 (parts that overlap), turf #1119 (text coordinates), geojsonlint #8 (a
foreign reference system). The districts of Las Vegas are codeforgermany/click_that_hood's.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import shapely

from decoder.density.areas import Areas
from decoder.density.cells import Places, places_of
from decoder.errors import DecodeError
from decoder.formats.density_inputs import read_areas, read_outlines
from decoder.grid_cells import cell_outline
from decoder.output.basemap import read_base
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

LAS_VEGAS = (
    Path(__file__).parents[3]
    / "shared/public_cases/files_and_maps/04_areas_parts_overlap/las-vegas.geojson"
)


def cells(south: float, west: float, north: float, east: float, side: int) -> Places:
    text = declaration(
        "places", "location", grid="square", box=[south, west, north, east], rows=side,
        columns=side, levels=[0], mode="memo", encoding="symbol", num_symbols=4, num_cohorts=32,
        epsilon_infinity=3.0, epsilon_one=2.0,
    )  # fmt: skip
    (metric,) = parse_metrics(text).parts("places")
    assert metric.location is not None
    return places_of([metric.location])


@pytest.fixture(scope="module")
def places() -> Places:
    """9 cells of 3 by 3 degrees at the equator."""
    return cells(0, 0, 9, 9, 3)


def square(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def write(folder: Path, kind: str, coordinates: Any, **more: Any) -> Path:
    path = folder / "area.geojson"
    feature = {"type": "Feature", "properties": {"name": "A"},
               "geometry": {"type": kind, "coordinates": coordinates}}  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature], **more}))
    return path


HALF = square(0, 0, 1.5, 3)


@pytest.mark.parametrize(
    ("kind", "coordinates"),
    [
        ("Polygon", [HALF]),
        ("MultiPolygon", [[HALF], [square(0.5, 0, 1.5, 3)]]),
        ("MultiPolygon", [[HALF], [HALF]]),
        ("Polygon", [HALF + HALF[1:]]),
        ("Polygon", [[*HALF[:2], [1.5, 4], *HALF[2:]]]),  # there and back along an edge
        ("MultiPolygon", [[HALF], [square(0.5, 1, 1, 2)[::-1]]]),  # a hole that is a part
        ("MultiPolygon", [[HALF], [[[1, 1], [2, 2], [1, 1], [1, 1]]]]),  # a part without surface
    ],
)
def test_an_area_is_the_union_of_its_parts(places, tmp_path, kind, coordinates) -> None:
    areas, notes = read_areas(write(tmp_path, kind, coordinates), places)
    assert areas.weights.toarray()[0].sum() == pytest.approx(0.5, abs=1e-9)
    assert areas.covered == pytest.approx(1)
    assert any("not valid" in note for note in notes) == (coordinates != [HALF])


@pytest.mark.parametrize(
    ("kind", "coordinates", "message"),
    [("Polygon", [[[0, 0], [4, 2], [4, 0], [0, 4], [0, 0]]], "'A': a ring crosses itself near"),
     ("Polygon", [HALF, square(4, 4, 5, 5)], "'A': a hole is not inside its polygon near"),
     ("Polygon", [[[0, 0], [1, 1], [0, 0], [0, 0]]], "'A': it has no surface near"),
     ("Polygon", [[[str(x), str(y)] for x, y in HALF]], "feature 1: .* must be number"),
     ("Polygon", [HALF[:-1]], "feature 1: .* closed"),
     ("LineString", HALF, "'LineString', not a Polygon")],
)  # fmt: skip
def test_what_is_ambiguous_is_refused_with_its_place(
    places: Places, tmp_path: Path, kind: str, coordinates: Any, message: str
) -> None:
    with pytest.raises(DecodeError, match=rf"area\.geojson: feature 1.*{message}|{message}"):
        read_areas(write(tmp_path, kind, coordinates), places)


def named(name: Any) -> dict[str, Any]:
    return {"type": "name", "properties": {"name": name}}


def test_a_reference_system_is_transformed(tmp_path: Path) -> None:
    """One square kilometer of the British grid."""
    around = cells(51.45, -0.2, 51.55, -0.05, 4)
    path = write(tmp_path, "Polygon", [square(530_000, 180_000, 531_000, 181_000)],
                 crs=named("urn:ogc:def:crs:EPSG::27700"))  # fmt: skip
    areas, notes = read_areas(path, around)
    assert areas.covered == pytest.approx(1)
    assert "from the reference system OSGB36 / British National Grid." in notes[-1]
    west, south, _, north = shapely.bounds(shapely.geometry.shape(areas.geometries[0]))
    assert (west, south) == pytest.approx((-0.128354, 51.503991), abs=3e-4)
    assert (north - south) * 111.2 == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize(
    "crs", [named("EPSG:99999"), named(7), named("+proj=utm +zone=33 +ellps=GRS80"),
            {"type": "link", "properties": {"href": "http://127.0.0.1/"}}]
)  # fmt: skip
def test_an_unknown_reference_system_is_refused(places: Places, tmp_path: Path, crs: Any) -> None:
    with pytest.raises(DecodeError, match="coordinate system"):
        read_areas(write(tmp_path, "Polygon", [HALF], crs=crs), places)


def write_vector(path: Path, crs: str | None, **more: Any) -> Path:
    geometry = np.array([shapely.to_wkb(shapely.polygons(HALF))], dtype=object)
    pyogrio.raw.write(path, geometry, [np.array(["A"], dtype=object)], fields=["name"],
                      geometry_type="Polygon", crs=crs, **more)  # fmt: skip
    return path


@pytest.mark.parametrize("name", ["area.shp", "area.gpkg", "area.fgb"])
def test_any_vector_file_is_read(places: Places, tmp_path: Path, name: str) -> None:
    path = write_vector(tmp_path / name, "EPSG:4326")
    areas, _ = read_areas(path, places)
    assert areas.names == ("A",)
    assert areas.weights.toarray()[0].sum() == pytest.approx(0.5, abs=1e-9)
    assert len(read_base(path).areas) == 1


def test_a_geojson_never_names_another_file(places: Places, tmp_path: Path) -> None:
    """GDAL would follow it: an uploaded list would read what the server can."""
    other = write_vector(tmp_path / "secret.gpkg", "EPSG:4326")
    path = tmp_path / "list.geojson"
    path.write_text(
        f'<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>{other}</SrcDataSource>'
        "</OGRVRTLayer></OGRVRTDataSource>"
    )
    with pytest.raises(DecodeError, match=r"list\.geojson"):
        read_areas(path, places)


@pytest.mark.filterwarnings("ignore:'crs' was not provided")
def test_files_that_leave_something_open_are_refused(places: Places, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="names no coordinate system"):
        read_areas(write_vector(tmp_path / "plain.shp", None), places)
    two = write_vector(tmp_path / "two.gpkg", "EPSG:4326", layer="one")
    write_vector(two, "EPSG:4326", layer="other", append=True)
    with pytest.raises(DecodeError, match=r"2 layers \('one', 'other'\)"):
        read_areas(two, places)
    (tmp_path / "noise.shp").write_bytes(b"\x00\x01\x02")
    with pytest.raises(DecodeError, match="not a vector file that GDAL can read"):
        read_areas(tmp_path / "noise.shp", places)


def by_shapely(places: Places, areas: Areas, path: Path) -> np.ndarray:
    """The part of each cell by the library's union, cell by cell, with exact surfaces."""
    features = json.loads(path.read_text())["features"]
    shapes = {one["properties"]["name"]: shapely.geometry.shape(one["geometry"])
              for one in features}  # fmt: skip

    def flat(corners: np.ndarray) -> np.ndarray:
        return np.column_stack([corners[:, 0], np.sin(np.radians(corners[:, 1]))])

    def surface(shape: Any) -> float:
        return float(shapely.transform(shape, flat).area)

    outlines = [
        shapely.Polygon([(x, y) for y, x in cell_outline(places.grid, cell)])
        for cell in places.shown_cells
    ]
    unions = [
        shapely.union_all([part.buffer(0) for part in shapely.get_parts(shapes[name])])
        for name in areas.names
    ]
    return np.array([[surface(one & cell) / surface(cell) for cell in outlines] for one in unions])


def test_districts_of_a_city_are_as_large_as_they_are() -> None:
    """Before, overlapping parts counted twice: Twin Lakes was 8 % too large."""
    if not LAS_VEGAS.is_file():
        pytest.skip(f"{LAS_VEGAS} is not there")
    corners = np.concatenate(
        [shapely.get_coordinates(one.geometry) for one in read_outlines(LAS_VEGAS)]
    )
    (west, south), (east, north) = corners.min(axis=0) - 0.01, corners.max(axis=0) + 0.01
    around = cells(float(south), float(west), float(north), float(east), 12)
    areas, _ = read_areas(LAS_VEGAS, around)
    np.testing.assert_allclose(
        areas.weights.toarray(), by_shapely(around, areas, LAS_VEGAS), atol=1e-6
    )
    assert areas.covered == pytest.approx(np.ones(len(areas.names)), abs=1e-5)
