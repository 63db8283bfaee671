"""A release as plain values: the rows and columns of its files, and release.json and back."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from decoder.tables.table import Column, ColumnType, Table, TableSchema
from disclosure.errors import ReleaseError
from disclosure.files import parse, to_plain
from disclosure.release.build import Release
from disclosure.release.tables import NUMBERS, ReleasedTable, numbers_or_none

_TEXT, _DAY, _INTEGER, _NUMBER = (
    ColumnType.TEXT, ColumnType.DAY, ColumnType.INTEGER, ColumnType.NUMBER
)  # fmt: skip
_OF_TABLE_SCHEMA = {_TEXT: "string", _DAY: "date", _INTEGER: "integer", _NUMBER: "number"}


def schema_of(release: Release) -> TableSchema:
    """The columns of release.csv and release.parquet; one for each stratum of the policy."""
    step = release.policy.rounding
    columns = [
        Column("metric", _TEXT, "name of the metric"),
        *(Column(f"stratum_{one}", _TEXT, f"stratum {one}") for one in release.policy.strata),
        Column("first_day", _DAY, "first day of the window (UTC)"),
        Column("last_day", _DAY, "last day of the window (UTC), in it"),
        Column("reports", _INTEGER, "reports of the table, rounded down to a multiple of "
               f"{release.policy.reports_rounding}; empty where the table is withheld"),
        Column("kind", _TEXT, "cell; merged: several cells, see members in release.json; "
               "total: sum of the cells of the table; withheld: nothing of the table is shown"),
        Column("value", _TEXT, "value or cell"),
        Column("estimate", _NUMBER, f"share of the reports, rounded to {step}; empty where a "
               "symbol stands"),
        Column("std_error", _NUMBER, f"standard error of the share, rounded up to {step}"),
        Column("low", _NUMBER, f"lower end of the interval, rounded down to {step}"),
        Column("high", _NUMBER, f"upper end of the interval, rounded up to {step}"),
        Column("level", _NUMBER, "level of the interval, before rounding widened it"),
        Column("symbol", _TEXT, "empty, or why no number is shown"),
    ]  # fmt: skip
    return TableSchema("release", f"Release of {release.issued}", tuple(columns))


def table_of(release: Release) -> Table:
    """The table of release.csv and release.parquet."""
    return schema_of(release).of_rows(list(rows_of(release)))


def rows_of(release: Release) -> Iterator[tuple[Any, ...]]:
    """The rows of `table_of`, one for each cell; None for a missing number."""
    for table in release.tables:
        yield from _rows(table, release.policy.strata)


def _rows(table: ReleasedTable, strata: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    split = dict(table.strata)
    head = (
        table.metric,
        *(split.get(name) for name in strata),
        table.first_day,
        table.last_day,
        table.reports,
    )
    if table.reports is None:
        yield (*head, "withheld", None, None, None, None, None, table.level, table.withheld)
        return
    numbers = (numbers_or_none(getattr(table, name)) for name in NUMBERS)
    rows = zip(table.kinds, table.cells, *numbers, table.symbols, strict=True)
    for kind, cell, estimate, error, low, high, symbol in rows:
        yield (*head, kind, cell, estimate, error, low, high, table.level, symbol or None)


def release_to_plain(release: Release) -> dict[str, Any]:
    """The release as plain values: tables by column, a data dictionary, the meaning of the
    symbols."""
    symbols = release.policy.legend()
    return to_plain(release) | {"symbols": symbols, "dictionary": dictionary(release)}


def dictionary(release: Release) -> list[dict[str, str]]:
    """The columns of release.csv as the fields of a Table Schema."""
    return [
        {"name": one.name, "type": _OF_TABLE_SCHEMA[one.type], "description": one.meaning}
        for one in schema_of(release).columns
    ]


def release_from_json(text: bytes, digest: str = "") -> Release:
    """Read a release from release.json. Raises ReleaseError."""
    return replace(parse(Release, text, ReleaseError), digest=digest)
