"""Files of a release: CSV, JSON, Parquet, GeoJSON, data dictionary, page, manifest, signature.

The same release gives the same bytes. A folder is written whole, under its name at the end, and
never written again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from decoder.tables.geo_files import write_geojson
from disclosure.files import new_folder, page_template, write_csv
from disclosure.release.build import Release
from disclosure.release.plain import dictionary, release_to_plain, table_of
from disclosure.release.tables import NUMBERS, ReleasedTable, decimals

MAX_ROWS = 200  # of a table
MAX_TABLES = 50


def render_page(release: Release) -> str:
    """The page as text. Values are escaped; the longest are cut."""
    shown = release.tables[:MAX_TABLES]
    return page_template("disclosure.release", "release.html.j2").render(
        release=release,
        policy=release.policy,
        tables=[_table(table, release) for table in shown],
        left_out=len(release.tables) - len(shown),
        legend=release.policy.legend(),
        used=_used_symbols(release),
    )


def _table(table: ReleasedTable, release: Release) -> dict[str, Any]:
    """What the template shows of a table: the largest shown first, then the suppressed."""
    places = max(0, decimals(release.policy.rounding) - 2)
    columns = [getattr(table, name).tolist() for name in NUMBERS]
    rows = list(zip(table.cells, table.kinds, *columns, table.symbols, strict=True))
    rows.sort(key=lambda row: (bool(row[6]), row[1] == "total", -row[2] if not row[6] else 0.0))
    peak = max((row[5] for row in rows if not row[6] and row[1] != "total"), default=1.0) or 1.0

    def percent(value: float) -> str:
        return f"{100 * value:.{places}f} %"

    return {
        "metric": table.metric,
        "strata": table.strata,
        "window": f"{table.first_day} to {table.last_day}",
        "reports": table.reports,
        "withheld": table.withheld,
        "level": f"{100 * table.level:g} %",
        "total": len(rows),
        "hidden": int((~table.is_shown).sum()),
        "rows": [
            {
                "cell": cell,
                "kind": kind,
                "held": table.held.get(cell, 0),
                "symbol": symbol,
                "estimate": "" if symbol else percent(estimate),
                "error": "" if symbol else percent(error),
                "interval": "" if symbol else f"{percent(low)} to {percent(high)}",
                "left": 0.0 if symbol or kind == "total" else round(100 * max(low, 0) / peak, 2),
                "width": 0.0
                if symbol or kind == "total"
                else round(100 * (min(high, peak) - max(low, 0)) / peak, 2),
            }
            for cell, kind, estimate, error, low, high, symbol in rows[:MAX_ROWS]
        ],
    }


def _used_symbols(release: Release) -> set[str]:
    used = {symbol for table in release.tables for symbol in table.symbols if symbol}
    return used | {table.withheld for table in release.tables if table.withheld}


FORMAT = "rappor-release"
VERSION = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
Sign = Callable[[bytes], bytes]


def write_release(
    release: Release,
    folder: Path,
    sign: Sign | None = None,
    key_id: str = "",
    *,
    rows: Callable[[Path], None] | None = None,
) -> list[str]:
    """Write a release into a folder that does not exist yet.

    Args:
        release: from `build_release`.
        folder: made; its parent exists.
        sign: gives the signature of the manifest's bytes, None to leave it unsigned.
        key_id: of the public key, for the manifest.
        rows: writes the files of synthetic rows into the folder, of a release that has no tables:
            they stand in the manifest with release.json, which says what they are of.

    Returns:
        The names of the files.

    Raises:
        ReleaseError: the folder exists, or cannot be written.
    """
    with new_folder(folder, "a release is" if rows is None else "rows are") as part:
        _write_text(part / "release.json", _json(release_to_plain(release), indent=None))
        if rows is None:
            _write_tables(release, part)
        else:
            rows(part)
        text = _json(manifest(release, part, key_id)).encode()
        (part / MANIFEST).write_bytes(text)
        if sign is not None:
            (part / SIGNATURE).write_bytes(sign(text) + b"\n")
    return sorted(path.name for path in folder.iterdir())


def _write_tables(release: Release, folder: Path) -> None:
    table = table_of(release)
    write_csv(folder / "release.csv", table.data, table.rows(), guarded=True)
    _write_text(folder / "datapackage.json", _json(datapackage(release)))
    _write_text(folder / "index.html", render_page(release))
    if find_spec("pyarrow") is not None:  # the extra `publication` does without
        table.write_parquet(folder / "release.parquet")
    if any(table.shapes for table in release.tables):
        write_geojson(features(release), folder / "release.geojson")


def datapackage(release: Release) -> dict[str, Any]:
    """The Frictionless Tabular Data Package (specs.frictionlessdata.io) that describes
    release.csv."""
    policy = release.policy
    return {
        "profile": "tabular-data-package",
        "name": "rappor-release",
        "title": f"Release of {release.issued}",
        "created": f"{release.issued}T00:00:00Z",
        "contributors": [{"title": policy.owner, "role": "publisher"}],
        "description": " ".join(release.notes),
        "audience": policy.audience,
        "symbols": policy.legend(),
        "policy": policy.to_dict(),
        "resources": [
            {
                "name": "release",
                "path": "release.csv",
                "profile": "tabular-data-resource",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "dialect": {"lineTerminator": "\n", "doubleQuote": True},
                "schema": {"fields": dictionary(release), "missingValues": [""]},
            }
        ],
    }


def features(release: Release) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield outline and properties of each cell of a release, for GeoJSON.

    A merged cell is one feature with the outline of its cells together.
    """
    rows = iter(table_of(release).records())
    for table in release.tables:
        for _ in range(1 if table.reports is None else len(table.cells)):
            properties = next(rows)
            cell = properties["value"] or ""
            if cell in table.members:
                properties["members"] = list(table.members[cell])
            if cell in table.shapes:
                yield table.shapes[cell], properties


def manifest(release: Release, folder: Path, key_id: str) -> dict[str, Any]:
    """The manifest of a release: digests of the files of a folder, and what the release is."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": digest_file(path)}
        for path in sorted(folder.iterdir())
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "owner": release.policy.owner,
        "audience": release.policy.audience,
        "issued": release.issued.isoformat(),
        "earlier": list(release.earlier),
        "key": key_id,
        "made_by": f"rappor-telemetry {_version()}",
        "files": files,
    }


def digest_file(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    found = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _json(content: Any, indent: int | None = 2) -> str:
    """ASCII: what would not be seen, or turn the writing, is escaped."""
    separators = (",", ":") if indent is None else None
    return json.dumps(content, indent=indent, separators=separators, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _version() -> str:
    try:
        return version("rappor-telemetry")
    except PackageNotFoundError:
        return "from a source tree"
