"""Files of a release: CSV, JSON, Parquet, GeoJSON, data dictionary, page, manifest, signature.

The same release produces the same bytes. A folder is written atomically, gets its final name only
at the end, and is never changed."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from decoder.tables.geo_files import write_geojson
from decoder.tables.table import Column, ColumnType, Table, TableSchema
from disclosure.errors import ReleaseError
from disclosure.files import new_folder, page_template, parse, to_plain, write_csv
from disclosure.release.build import Release
from disclosure.release.tables import NUMBERS, ReleasedTable, decimals, numbers_or_none

MAX_ROWS = 200  # the maximum in a table on the page
MAX_TABLES = 50
FORMAT = "rappor-release"
VERSION = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
Sign = Callable[[bytes], bytes]

_TEXT, _DAY, _INTEGER, _NUMBER = (
    ColumnType.TEXT, ColumnType.DAY, ColumnType.INTEGER, ColumnType.NUMBER
)  # fmt: skip
_OF_TABLE_SCHEMA = {_TEXT: "string", _DAY: "date", _INTEGER: "integer", _NUMBER: "number"}


def write_release(
    release: Release,
    folder: Path,
    sign: Sign | None = None,
    key_id: str = "",
    *,
    rows: Callable[[Path], None] | None = None,
) -> list[str]:
    """Write a release to a new folder.

    Args:
        release: A release from `build_release`.
        folder: The folder, whose parent exists.
        sign: A function that signs the manifest's bytes; None for no signature.
        key_id: The public key's id, for the manifest.
        rows: A function that writes the files of synthetic rows to the folder, for a release
            without tables. The manifest lists them with release.json, which describes them.

    Returns:
        The names of the files.

    Raises:
        ReleaseError: The folder exists, or cannot be written.
    """
    with new_folder(folder, "a release is" if rows is None else "rows are") as part:
        _write_text(part / "release.json", _json(release_to_plain(release), indent=None))
        if rows is None:
            _write_tables(release, part)
        else:
            rows(part)
        text = _json(_manifest(release, part, key_id)).encode()
        (part / MANIFEST).write_bytes(text)
        if sign is not None:
            (part / SIGNATURE).write_bytes(sign(text) + b"\n")
    return sorted(path.name for path in folder.iterdir())


def release_to_plain(release: Release) -> dict[str, Any]:
    """Return the release as plain values: tables by column, data dictionary, legend of symbols."""
    fields = _dictionary(_schema_of(release).columns)
    return to_plain(release) | {"symbols": release.policy.legend(), "dictionary": fields}


def release_from_json(text: bytes, digest: str = "") -> Release:
    """Read a release from release.json. Raises ReleaseError if invalid."""
    return replace(parse(Release, text, ReleaseError), digest=digest)


def _write_tables(release: Release, folder: Path) -> None:
    table = _schema_of(release).of_rows(list(_rows_of(release)))
    write_csv(folder / "release.csv", table.data, table.rows(), guarded=True)
    _write_text(folder / "datapackage.json", _json(_datapackage(release, table.columns)))
    _write_text(folder / "index.html", _page(release))
    if find_spec("pyarrow") is not None:  # the extra `publication` does not include pyarrow
        table.write_parquet(folder / "release.parquet")
    if any(table.shapes for table in release.tables):
        write_geojson(_features(release, table), folder / "release.geojson")


def _schema_of(release: Release) -> TableSchema:
    """Return the columns of release.csv and release.parquet, one for each stratum of the policy."""
    step = release.policy.rounding
    columns = [
        Column("metric", _TEXT, "name of the metric"),
        *(Column(f"stratum_{name}", _TEXT, f"stratum {name}") for name in release.policy.strata),
        Column("first_day", _DAY, "first day of the window (UTC)"),
        Column("last_day", _DAY, "last day of the window (UTC), in it"),
        Column("reports", _INTEGER, "reports of the table, rounded down to a multiple of "
               f"{release.policy.reports_rounding}; empty where the table is withheld"),
        Column("kind", _TEXT, "cell; merged: several cells, see members in release.json; "
               "total: sum of the cells of the table; withheld: nothing of the table is shown"),
        Column("value", _TEXT, "value or cell"),
        Column("estimate", _NUMBER, f"share of the reports, rounded to {step}; empty where a "
               "symbol is shown"),
        Column("std_error", _NUMBER, f"standard error of the share, rounded up to {step}"),
        Column("low", _NUMBER, f"lower end of the interval, rounded down to {step}"),
        Column("high", _NUMBER, f"upper end of the interval, rounded up to {step}"),
        Column("level", _NUMBER, "level of the interval, before rounding widened it"),
        Column("symbol", _TEXT, "empty, or why no number is shown"),
    ]  # fmt: skip
    return TableSchema("release", f"Release of {release.issued}", tuple(columns))


def _rows_of(release: Release) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of release.csv, one per cell; None for a missing number."""
    for table in release.tables:
        split = dict(table.strata)
        strata = (split.get(name) for name in release.policy.strata)
        head = (table.metric, *strata, table.first_day, table.last_day, table.reports)
        if table.reports is None:
            yield (*head, "withheld", None, None, None, None, None, table.level, table.withheld)
        numbers = (numbers_or_none(getattr(table, name)) for name in NUMBERS)
        for *row, symbol in zip(table.kinds, table.cells, *numbers, table.symbols, strict=True):
            yield (*head, *row, table.level, symbol or None)


def _dictionary(columns: Sequence[Column]) -> list[dict[str, str]]:
    """Return the columns of release.csv as the fields of a Table Schema."""
    return [
        {"name": column.name, "type": _OF_TABLE_SCHEMA[column.type], "description": column.meaning}
        for column in columns
    ]


def _datapackage(release: Release, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the Frictionless Tabular Data Package of release.csv (specs.frictionlessdata.io)."""
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
                "schema": {"fields": _dictionary(columns), "missingValues": [""]},
            }
        ],
    }


def _features(release: Release, rows: Table) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Yield the outline and properties of each cell of a release, for GeoJSON.

    A merged cell is one feature with the joint outline of its cells."""
    records = iter(rows.records())
    for table in release.tables:
        for _ in range(1 if table.reports is None else len(table.cells)):
            properties = next(records)
            cell = properties["value"] or ""
            if cell in table.members:
                properties["members"] = list(table.members[cell])
            if cell in table.shapes:
                yield table.shapes[cell], properties


def _page(release: Release) -> str:
    """Return the page as text, with values escaped and long values truncated."""
    tables, first = release.tables, release.tables[:MAX_TABLES]
    return page_template("disclosure.release", "release.html.j2").render(
        release=release,
        policy=release.policy,
        tables=[_table(table, release) for table in first],
        left_out=len(tables) - len(first),
        legend=release.policy.legend(),
        used={symbol for table in tables for symbol in (*table.symbols, table.withheld)},
    )


def _table(table: ReleasedTable, release: Release) -> dict[str, Any]:
    """Return a table's data for the template: shown rows by size, then suppressed rows."""
    places = max(0, decimals(release.policy.rounding) - 2)
    rows = table.rows()
    bars = [row.high for row in rows.values() if not row.symbol and row.kind != "total"]
    peak = max(bars, default=1.0) or 1.0

    def percent(value: float) -> str:
        return f"{100 * value:.{places}f} %"

    def order(cell: str) -> tuple[bool, bool, float]:
        row = rows[cell]
        return bool(row.symbol), row.kind == "total", 0.0 if row.symbol else -row.estimate

    def shown(cell: str) -> dict[str, Any]:
        row = rows[cell]
        view = {"cell": cell, "kind": row.kind, "symbol": row.symbol, "width": 0.0}
        view["held"] = table.held.get(cell, 0)
        if not row.symbol:
            view["estimate"], view["error"] = percent(row.estimate), percent(row.std_error)
            view["interval"] = f"{percent(row.low)} to {percent(row.high)}"
        if not row.symbol and row.kind != "total":
            first = max(row.low, 0)
            view["left"] = round(100 * first / peak, 2)
            view["width"] = round(100 * (min(row.high, peak) - first) / peak, 2)
        return view

    return {
        "metric": table.metric,
        "strata": table.strata,
        "window": f"{table.first_day} to {table.last_day}",
        "reports": table.reports,
        "withheld": table.withheld,
        "level": f"{100 * table.level:g} %",
        "total": len(rows),
        "hidden": int((~table.is_shown).sum()),
        "rows": [shown(cell) for cell in sorted(rows, key=order)[:MAX_ROWS]],
    }


def _manifest(release: Release, folder: Path, key_id: str) -> dict[str, Any]:
    """Return the manifest: digests of a folder's files, and a description of the release."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": digest_file(path)}
        for path in sorted(folder.iterdir())
    }
    try:
        maker = version("rappor-telemetry")
    except PackageNotFoundError:
        maker = "from a source tree"
    return {
        "format": FORMAT,
        "version": VERSION,
        "owner": release.policy.owner,
        "audience": release.policy.audience,
        "issued": release.issued.isoformat(),
        "earlier": list(release.earlier),
        "key": key_id,
        "made_by": f"rappor-telemetry {maker}",
        "files": files,
    }


def digest_file(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _json(content: Any, indent: int | None = 2) -> str:
    """Return ASCII JSON, in which invisible and direction-changing characters are escaped."""
    separators = (",", ":") if indent is None else None
    return json.dumps(content, indent=indent, separators=separators, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
