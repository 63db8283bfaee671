"""Tables with a geometry in files that GIS programs open: GeoPackage, GeoParquet.

GeoPackage 1.3 (OGC 12-128r17) is a SQLite file; GeoParquet 1.1 is Parquet with a key of metadata.
Both hold geometries as well-known binary (ISO 19125), longitude first, WGS 84. The same input gives
the same bytes, so that a GeoPackage is dated by its data.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from decoder.tables.format import GEOMETRY

Geometry = Mapping[str, Any]  # of GeoJSON

_WKB = {"Point": 1, "LineString": 2, "Polygon": 3, "MultiPoint": 4, "MultiLineString": 5,
        "MultiPolygon": 6}  # fmt: skip
_APPLICATION_ID, _VERSION, _WGS_84 = 0x47504B47, 10300, 4326
_LITTLE_ENDIAN, _WITH_ENVELOPE = 1, 2
_WGS_84_TEXT = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]'
)
_TABLES = """
CREATE TABLE gpkg_spatial_ref_sys (
    srs_name TEXT NOT NULL, srs_id INTEGER PRIMARY KEY, organization TEXT NOT NULL,
    organization_coordsys_id INTEGER NOT NULL, definition TEXT NOT NULL, description TEXT);
CREATE TABLE gpkg_contents (
    table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, identifier TEXT UNIQUE,
    description TEXT DEFAULT '',
    last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE,
    srs_id INTEGER REFERENCES gpkg_spatial_ref_sys (srs_id));
CREATE TABLE gpkg_geometry_columns (
    table_name TEXT NOT NULL UNIQUE REFERENCES gpkg_contents (table_name),
    column_name TEXT NOT NULL, geometry_type_name TEXT NOT NULL,
    srs_id INTEGER NOT NULL REFERENCES gpkg_spatial_ref_sys (srs_id),
    z TINYINT NOT NULL, m TINYINT NOT NULL, PRIMARY KEY (table_name, column_name));
"""
_SYSTEMS = (
    ("Undefined Cartesian", -1, "NONE", -1, "undefined", None),
    ("Undefined geographic", 0, "NONE", 0, "undefined", None),
    ("WGS 84", _WGS_84, "EPSG", _WGS_84, _WGS_84_TEXT, "longitude and latitude in degrees"),
)


@dataclass(frozen=True)
class Layer:
    """A table of a GeoPackage.

    name: of letters and underscores.  table: an Arrow table without a geometry.  geometries: of
    GeoJSON, one a row, None where a row has no place.
    """

    name: str
    table: Any
    geometries: Sequence[Geometry | None]


def well_known_binary(geometry: Geometry) -> bytes:
    """A GeoJSON geometry as well-known binary, little-endian, two dimensions."""
    kind, coordinates = geometry["type"], geometry["coordinates"]
    return struct.pack("<BI", 1, _WKB[kind]) + _body(kind, coordinates)


def _body(kind: str, coordinates: Any) -> bytes:
    if kind == "Point":
        return struct.pack("<2d", *coordinates[:2])
    if kind == "LineString":
        return _points(coordinates)
    if kind == "Polygon":
        return _counted(_points(ring) for ring in coordinates)
    part = kind.removeprefix("Multi")
    return _counted(well_known_binary({"type": part, "coordinates": one}) for one in coordinates)


def _points(line: Sequence[Sequence[float]]) -> bytes:
    return _counted(struct.pack("<2d", *point[:2]) for point in line)


def _counted(parts: Iterator[bytes]) -> bytes:
    listed = list(parts)
    return struct.pack("<I", len(listed)) + b"".join(listed)


def write_geoparquet(path: Path, table: Any, geometries: Sequence[Geometry | None]) -> None:
    """Write a table with its geometries as GeoParquet; rows without a place have none."""
    kept = [one for one in geometries if one is not None]
    west, south, east, north = _extent(kept)
    column = {"encoding": "WKB", "geometry_types": sorted({one["type"] for one in kept})}
    if kept:
        column["bbox"] = [west, south, east, north]
    text = json.dumps({"version": "1.1.0", "primary_column": GEOMETRY,
                       "columns": {GEOMETRY: column}})  # fmt: skip
    known: dict[int, bytes] = {}  # rows of several windows share their geometries
    cells = [
        None if one is None else known.setdefault(id(one), well_known_binary(one))
        for one in geometries
    ]
    whole = table.append_column(GEOMETRY, pa.array(cells, pa.binary()))
    metadata = {**(table.schema.metadata or {}), b"geo": text.encode()}
    parquet.write_table(whole.replace_schema_metadata(metadata), path)


def write_geopackage(path: Path, layers: Sequence[Layer], day: str) -> None:
    """Write layers into a new GeoPackage. day: the last of the data, as 2026-11-30."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
        database.executescript(_TABLES)
        database.executemany("INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, ?)", _SYSTEMS)
        for layer in layers:
            _add_layer(database, layer, f"{day}T00:00:00.000Z")


def _add_layer(database: sqlite3.Connection, layer: Layer, changed: str) -> None:
    placed = [one for one in layer.geometries if one is not None]
    kinds = {one["type"].upper() for one in placed}
    kind = kinds.pop() if len(kinds) == 1 else "GEOMETRY"
    columns = [f'"{field.name}" {_column_type(field.type)}' for field in layer.table.schema]
    database.execute(
        f'CREATE TABLE "{layer.name}" (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, '
        f"{GEOMETRY} {kind}, {', '.join(columns)})"
    )
    west, south, east, north = _extent(placed)
    database.execute(
        "INSERT INTO gpkg_contents VALUES (?, 'features', ?, '', ?, ?, ?, ?, ?, ?)",
        (layer.name, layer.name, changed, west, south, east, north, _WGS_84),
    )
    database.execute(
        "INSERT INTO gpkg_geometry_columns VALUES (?, ?, ?, ?, 0, 0)",
        (layer.name, GEOMETRY, kind, _WGS_84),
    )
    marks = ", ".join("?" * (len(columns) + 1))
    names = ", ".join(f'"{name}"' for name in (GEOMETRY, *layer.table.column_names))
    rows = zip(
        (None if one is None else _blob(one) for one in layer.geometries),
        *(_values(column) for column in layer.table.columns),
        strict=True,
    )
    database.executemany(
        f'INSERT INTO "{layer.name}" ({names}) VALUES ({marks})',  # noqa: S608 (names of ours)
        rows,
    )


def _column_type(kind: Any) -> str:
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_integer(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    return "DATE" if pa.types.is_date(kind) else "TEXT"


def _values(column: Any) -> list[Any]:
    if pa.types.is_date(column.type):
        return [None if day is None else day.isoformat() for day in column.to_pylist()]
    return list(column.to_pylist())


def _blob(geometry: Geometry) -> bytes:
    """The geometry of a GeoPackage: header, envelope, well-known binary."""
    west, south, east, north = _extent([geometry])
    header = struct.pack("<2sBBi", b"GP", 0, _LITTLE_ENDIAN | _WITH_ENVELOPE, _WGS_84)
    return header + struct.pack("<4d", west, east, south, north) + well_known_binary(geometry)


def _extent(geometries: Sequence[Geometry]) -> tuple[float | None, ...]:
    """West, south, east, north; None without geometries."""
    corners = [corner for one in geometries for corner in _corners(one["coordinates"])]
    if not corners:
        return None, None, None, None
    x, y = zip(*((float(corner[0]), float(corner[1])) for corner in corners), strict=True)
    return min(x), min(y), max(x), max(y)


def _corners(coordinates: Any) -> Iterator[Any]:
    if coordinates and not isinstance(coordinates[0], list | tuple):
        yield coordinates
        return
    for part in coordinates:
        yield from _corners(part)
