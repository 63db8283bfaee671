"""Files of GIS programs: write GeoParquet and GeoJSON; read districts, regions and streets.

Coordinates are longitude and latitude, WGS 84. Writing needs no geometry library; reading needs the
extra `geo`. This module parses GeoJSON itself, because GDAL silently drops a geometry or coordinate
system that it cannot read. Every other format is read by GDAL (pyogrio)."""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from decoder.errors import DecodeError
from decoder.tables.format import GEOMETRY
from rappor_core.errors import shown

Geometry = Mapping[str, Any]  # a GeoJSON geometry

MAX_BYTES = 32 * 2**20
_BLANKS = b"\xef\xbb\xbf \t\r\n"  # including a byte order mark
_WKB = {"Point": 1, "LineString": 2, "Polygon": 3, "MultiPoint": 4, "MultiLineString": 5,
        "MultiPolygon": 6}  # fmt: skip


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
        body = counted(
            well_known_binary({"type": part, "coordinates": coordinate})
            for coordinate in coordinates
        )
    return struct.pack("<BI", 1, _WKB[kind]) + body


def write_geoparquet(path: Path, table: Any, geometries: Sequence[Geometry | None]) -> None:
    """Write a table with geometries as GeoParquet 1.1; rows without a place have no geometry."""
    import pyarrow as pa  # GeoJSON does not need it
    from pyarrow import parquet

    placed = [geometry for geometry in geometries if geometry is not None]
    column = {"encoding": "WKB", "geometry_types": sorted({mark["type"] for mark in placed})}
    if placed:
        x, y = zip(*(corner for mark in placed for corner in _corners(mark["coordinates"])),
                   strict=True)  # fmt: skip
        column["bbox"] = [min(x), min(y), max(x), max(y)]
    text = json.dumps({"version": "1.1.0", "primary_column": GEOMETRY,
                       "columns": {GEOMETRY: column}})  # fmt: skip
    metadata = {**(table.schema.metadata or {}), b"geo": text.encode()}
    cached: dict[int, bytes] = {}  # rows of several windows share their geometries
    cells = [
        geometry and cached.setdefault(id(geometry), well_known_binary(geometry))
        for geometry in geometries
    ]
    whole = table.append_column(GEOMETRY, pa.array(cells, pa.binary()))
    parquet.write_table(whole.replace_schema_metadata(metadata), path)


def _corners(coordinates: Any) -> Iterator[tuple[float, float]]:
    if isinstance(coordinates[0], list | tuple):
        for part in coordinates:
            yield from _corners(part)
    else:
        yield float(coordinates[0]), float(coordinates[1])


def write_geojson(features: Iterable[tuple[Geometry, Mapping[str, Any]]], path: Path) -> None:
    """Write a GeoJSON FeatureCollection (RFC 7946) of geometries and properties, one per line."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type":"FeatureCollection","features":[')
        for number, (geometry, properties) in enumerate(features):
            feature = {"type": "Feature", "geometry": geometry, "properties": properties}
            text = json.dumps(feature, separators=(",", ":"), allow_nan=False, default=str)
            file.write(f"{',' if number else ''}\n{text}")
        file.write("\n]}\n")


@dataclass(frozen=True)
class Shape:
    """A feature of a file."""

    number: int  # From 1
    properties: Mapping[str, Any]
    geometry: Any  # A shapely geometry, longitude first, or None

    def text(self, name: str) -> str:
        """Return a property as printable text, "" if it is missing."""
        value = self.properties.get(name)
        text = "" if value is None or isinstance(value, list | dict) else str(value)
        return "".join(c for c in text if c.isprintable()).strip()


def read_shapes(path: Path) -> tuple[list[Shape], str]:
    """Read all features of a file.

    Returns:
        The features, and the name of their original coordinate system; "" for WGS 84.

    Raises:
        DecodeError: The file is too large, not a vector file, or has an unknown or missing
            coordinate system; a geometry cannot be read; or the libraries are not installed.
    """
    try:
        import pyogrio  # noqa: F401
        import pyproj
        import shapely
    except ImportError as error:
        raise DecodeError(
            f"vector files need the library {error.name}: pip install 'rappor-telemetry[geo]'"
        ) from error
    if path.stat().st_size > MAX_BYTES:
        raise DecodeError(f"it is larger than {MAX_BYTES // 2**20} MB; simplify the outlines")
    content = path.read_bytes().lstrip(_BLANKS)
    # GDAL never opens a file that is JSON by name, because some GDAL formats refer to other files
    # or addresses, which it would read
    is_json = path.suffix.lower() in (".json", ".geojson") or content.startswith((b"{", b"["))
    rows, system = _geojson(content) if is_json else _other(path)
    parse = shapely.from_geojson if is_json else shapely.from_wkb
    transformer, name = _to_degrees(system)
    shapes = []
    for number, (properties, geometry) in enumerate(rows, start=1):
        try:
            shape = None if geometry is None else shapely.force_2d(parse(geometry))
            if transformer:
                shape = shapely.transform(shape, transformer, interleaved=False)
        except shapely.GEOSException as error:
            raise DecodeError(f"feature {number}: its geometry is invalid: {error}") from error
        except pyproj.exceptions.ProjError as error:
            raise DecodeError(
                f"feature {number} is outside of its coordinate system {shown(system)}"
            ) from error
        corners = shapely.get_coordinates(shape)
        for x, y in corners[~(np.abs(corners) <= [540, 90]).all(axis=1)][:1]:
            raise DecodeError(
                f"feature {number}: {x:g}, {y:g} is not a longitude and latitude in degrees"
            )
        shapes.append(Shape(number, properties, shape))
    return shapes, name


def _geojson(content: bytes) -> tuple[Iterator[tuple[Mapping[str, Any], Any]], str]:
    """Read features, in WGS 84 unless a member `crs` names another system (GeoJSON 2008)."""
    document = json.loads(content)
    system = document.get("crs") if isinstance(document, Mapping) else None
    if system is None:
        return _features(document), "OGC:CRS84"
    properties = system.get("properties") if isinstance(system, Mapping) else None
    name = properties.get("name") if isinstance(properties, Mapping) else None
    if not isinstance(name, str):
        raise DecodeError(f"its coordinate system (crs) {shown(str(system))} has no name")
    return _features(document), name


def _features(document: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Yield the properties and geometry of each feature of a GeoJSON object."""
    kind = document.get("type") if isinstance(document, Mapping) else None
    if kind == "FeatureCollection" and isinstance(document.get("features"), list):
        for feature in document["features"]:
            if not isinstance(feature, Mapping) or feature.get("type") != "Feature":
                raise DecodeError("a member of its features is not a GeoJSON Feature")
            yield from _features(feature)
    elif kind == "Feature":
        properties, geometry = document.get("properties"), document.get("geometry")
        fields = properties if isinstance(properties, Mapping) else {}
        yield fields, None if geometry is None else json.dumps(geometry)
    elif isinstance(document, Mapping) and ("coordinates" in document or "geometries" in document):
        yield {}, json.dumps(document)
    else:
        raise DecodeError("it is not a GeoJSON FeatureCollection, Feature or geometry")


def _other(path: Path) -> tuple[Iterator[tuple[Mapping[str, Any], Any]], str]:
    """Return the properties and geometry of each feature, and their coordinate system's name."""
    import pyogrio

    try:
        layers = pyogrio.list_layers(path)
        if len(layers) != 1:
            names = ", ".join(shown(str(name)) for name, _ in layers) or "none"
            raise DecodeError(f"it has {len(layers)} layers ({names}); give a file of one")
        meta, _, geometries, columns = pyogrio.raw.read(path)
    except pyogrio.errors.DataSourceError as error:
        raise DecodeError(f"it is not a vector file that GDAL can read: {error}") from error
    if geometries is None:
        raise DecodeError("it has no geometries")
    if not meta["crs"]:
        raise DecodeError("it names no coordinate system: add it, as the .prj file of a shapefile")
    fields, values = [str(name) for name in meta["fields"]], [array.tolist() for array in columns]
    rows = (
        ({name: column[i] for name, column in zip(fields, values, strict=True)}, geometry)
        for i, geometry in enumerate(geometries)
    )
    return rows, str(meta["crs"])


def _to_degrees(system: str) -> tuple[Callable[..., Any] | None, str]:
    """Return the transformation to longitude and latitude (None for WGS 84), and the system."""
    import pyproj

    try:
        crs = pyproj.CRS.from_user_input(system).to_2d()
        transformer = pyproj.Transformer.from_crs(
            crs, "OGC:CRS84", always_xy=True, allow_ballpark=False
        )
    except pyproj.exceptions.ProjError as error:
        raise DecodeError(
            f"no transformation to WGS 84 is known from its coordinate system {shown(system)}"
        ) from error
    if crs in (pyproj.CRS("OGC:CRS84"), pyproj.CRS("EPSG:4326")):
        return None, ""
    return partial(transformer.transform, errcheck=True), crs.name
