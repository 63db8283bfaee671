"""GeoParquet, read back by other code than wrote it."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.output.density_csv import density_table
from decoder.tables.geo_files import well_known_binary
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
