"""Tables with a place in files that GIS programs open: GeoParquet, GeoPackage, GeoJSON.

Geometries are those of GeoJSON: longitude first, WGS 84. The same input gives the same bytes, so
a GeoPackage is dated by its data. GeoParquet and GeoJSON need no library for geometries;
GeoPackage needs the extra `geo`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from decoder.tables.format import GEOMETRY

Geometry = Mapping[str, Any]  # of GeoJSON

NO_GEOPACKAGE = "No GeoPackage was written: it needs pip install 'rappor-telemetry[geo]'."
_WKB = {"Point": 1, "LineString": 2, "Polygon": 3, "MultiPoint": 4, "MultiLineString": 5,
        "MultiPolygon": 6}  # fmt: skip


def has_geopackage() -> bool:
    """Whether the library that writes GeoPackages is installed."""
    return find_spec("pyogrio") is not None


def well_known_binary(geometry: Geometry) -> bytes:
    """Encode a GeoJSON geometry as well-known binary (ISO 19125), little-endian, in 2D."""
    kind, coordinates = geometry["type"], geometry["coordinates"]

    def counted(parts: Iterable[bytes]) -> bytes:
        listed = list(parts)
        return struct.pack("<I", len(listed)) + b"".join(listed)

    def points(line: Sequence[Sequence[float]]) -> bytes:
        return counted(struct.pack("<2d", *point[:2]) for point in line)

    if kind == "Point":
        body = struct.pack("<2d", *coordinates[:2])
    elif kind == "LineString":
        body = points(coordinates)
    elif kind == "Polygon":
        body = counted(map(points, coordinates))
    else:
        part = kind.removeprefix("Multi")
        body = counted(well_known_binary({"type": part, "coordinates": one}) for one in coordinates)
    return struct.pack("<BI", 1, _WKB[kind]) + body


def with_geometry(table: Any, geometries: Sequence[Geometry | None]) -> Any:
    """Add a last column with the geometry of each row to a pyarrow.Table, null where it is None."""
    import pyarrow as pa  # GeoJSON needs it not

    known: dict[int, bytes] = {}  # rows of several windows share their geometries
    cells = [
        None if one is None else known.setdefault(id(one), well_known_binary(one))
        for one in geometries
    ]
    return table.append_column(GEOMETRY, pa.array(cells, pa.binary()))


def write_geoparquet(path: Path, table: Any, geometries: Sequence[Geometry | None]) -> None:
    """Write a table with its geometries as GeoParquet 1.1; rows without a place have none."""
    from pyarrow import parquet

    placed = [one for one in geometries if one is not None]
    column = {"encoding": "WKB", "geometry_types": sorted({one["type"] for one in placed})}
    if placed:
        x, y = zip(*(corner for one in placed for corner in _corners(one["coordinates"])),
                   strict=True)  # fmt: skip
        column["bbox"] = [min(x), min(y), max(x), max(y)]
    text = json.dumps({"version": "1.1.0", "primary_column": GEOMETRY,
                       "columns": {GEOMETRY: column}})  # fmt: skip
    metadata = {**(table.schema.metadata or {}), b"geo": text.encode()}
    whole = with_geometry(table, geometries)
    parquet.write_table(whole.replace_schema_metadata(metadata), path)


def _corners(coordinates: Any) -> Iterator[tuple[float, float]]:
    if isinstance(coordinates[0], list | tuple):
        for part in coordinates:
            yield from _corners(part)
    else:
        yield float(coordinates[0]), float(coordinates[1])


def write_geopackage(layers: Mapping[str, Any], day: str, path: Path) -> None:
    """Write a new GeoPackage 1.3 of one layer or more.

    Args:
        layers: By name, pyarrow.Tables made by `with_geometry`; rows without a place are left out.
        day: The last day of the data, such as 2026-11-30.
        path: Of the file.
    """
    import pyogrio

    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": f"{day}T00:00:00.000Z"})
    try:
        with TemporaryDirectory(dir=path.parent) as folder:  # GDAL warns of other file names
            written = Path(folder) / "layers.gpkg"
            for name, table in layers.items():
                placed = table.filter(table[GEOMETRY].is_valid()).replace_schema_metadata(None)
                codes = {content[1] for content in placed[GEOMETRY].to_pylist()}
                types = [kind for kind, code in _WKB.items() if code in codes]
                pyogrio.write_arrow(
                    placed,
                    written,
                    layer=name,
                    driver="GPKG",
                    append=written.exists(),
                    crs="EPSG:4326",
                    geometry_name=GEOMETRY,
                    geometry_type=types[0] if len(types) == 1 else "Unknown",
                    dataset_options={"VERSION": "1.3"},
                    layer_options={"GEOMETRY_NAME": GEOMETRY},
                )
            written.replace(path)
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})


def write_geojson(features: Iterable[tuple[Geometry, Mapping[str, Any]]], path: Path) -> None:
    """Write a GeoJSON FeatureCollection (RFC 7946), a feature a line.

    Args:
        features: Geometry and properties of each.
        path: Of the file.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type":"FeatureCollection","features":[')
        for number, (geometry, properties) in enumerate(features):
            feature = {"type": "Feature", "geometry": geometry, "properties": properties}
            text = json.dumps(feature, separators=(",", ":"), allow_nan=False, default=str)
            file.write(f"{',' if number else ''}\n{text}")
        file.write("\n]}\n")
