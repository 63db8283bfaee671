"""GeoPackage and GeoParquet, read back by other code than wrote them."""

import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.grid_cells import cell_outline
from decoder.kinds.location import Maps, map_result
from decoder.kinds.result import Question
from decoder.output.density_csv import density_table
from decoder.tables.geo_files import NO_GEOPACKAGE, well_known_binary
from tests.decoder.test_density import BOTH, ONE_HOT, drawn, parts
from tests.map_pages import write_maps


@pytest.fixture(scope="module")
def night() -> Density:
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


def test_a_geopackage_holds_cells_with_intervals(night: Density, tmp_path: Path) -> None:
    write_maps([night], tmp_path)
    path = tmp_path / "density.gpkg"
    with closing(sqlite3.connect(path)) as database:
        one = database.execute
        assert one("PRAGMA application_id").fetchone() == (int.from_bytes(b"GPKG", "big"),)
        assert one("PRAGMA user_version").fetchone() == (10300,)
        assert one("PRAGMA integrity_check").fetchone() == ("ok",)
        assert one("PRAGMA foreign_key_check").fetchall() == []
        systems = {row[0] for row in one("SELECT srs_id FROM gpkg_spatial_ref_sys")}
        assert systems >= {-1, 0, 4326}
        contents = one("SELECT table_name, data_type, last_change, min_x, min_y, max_x, max_y, "
                       "srs_id FROM gpkg_contents").fetchall()  # fmt: skip
        assert contents == [("cells", "features", "2026-11-02T00:00:00.000Z", 0, 0, 8, 8, 4326)]
        columns = one("SELECT * FROM gpkg_geometry_columns").fetchall()
        assert columns == [("cells", "geometry", "POLYGON", 4326, 0, 0)]
        rows = one("SELECT cell, geometry, estimate, low, high, detected FROM cells ORDER BY fid")
        found = rows.fetchall()
    assert [row[0] for row in found] == list(night.places.shown_cells)
    for row, cell, estimate in zip(found, night.cells, night.estimate, strict=False):
        magic, version, flags, system = struct.unpack_from("<2sBBi", row[1])
        assert (magic, version, flags, system) == (b"GP", 0, 3, 4326)
        west, east, south, north = struct.unpack_from("<4d", row[1], 8)
        kind, rings, end = read_wkb(row[1], 40)
        corners = {(x, y) for y, x in cell_outline(night.places.grid, cell)}
        assert (kind, set(rings[0]), end) == ("Polygon", corners, len(row[1]))
        assert rings[0][0] == rings[0][-1]
        xs, ys = zip(*corners, strict=True)
        assert (west, east, south, north) == (min(xs), max(xs), min(ys), max(ys))
        assert row[2] == estimate
        assert row[3] <= row[4]


def test_without_the_extra_a_sentence_says_what_is_missing(
    night: Density, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decoder.tables.geo_files.find_spec", lambda _: None)
    maps = Maps([night])
    result = map_result(
        maps, Question(), drawn(parts(BOTH + ONE_HOT)[0], 10, np.random.default_rng(1))
    )
    assert NO_GEOPACKAGE in result.notes
    assert "density.gpkg" not in result.files
    assert "density.geojson" in result.files


def test_the_parquet_file_is_geoparquet(night: Density, tmp_path: Path) -> None:
    some = night.showing(night.cells[2:5])
    for number, one in enumerate((night, some)):
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
