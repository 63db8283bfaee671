"""A release as plain values: the rows and columns of its files, and release.json and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from disclosure.errors import ReleaseError
from disclosure.files import parse, to_plain
from disclosure.release.build import Release
from disclosure.release.tables import NUMBERS, ReleasedTable, numbers_or_none


@dataclass(frozen=True)
class Column:
    """A column of release.csv: name, type (of Table Schema: string, date, integer, number),
    meaning."""

    name: str
    kind: str
    meaning: str


def columns_of(release: Release) -> list[Column]:
    """The columns of release.csv in their order; one for each stratum of the policy."""
    step = release.policy.rounding
    return [
        Column("metric", "string", "name of the metric"),
        *(Column(f"stratum_{one}", "string", f"stratum {one}") for one in release.policy.strata),
        Column("first_day", "date", "first day of the window (UTC)"),
        Column("last_day", "date", "last day of the window (UTC), in it"),
        Column("reports", "integer", "reports of the table, rounded down to a multiple of "
               f"{release.policy.reports_rounding}; empty where the table is withheld"),
        Column("kind", "string", "cell; merged: several cells, see members in release.json; "
               "total: sum of the cells of the table; withheld: nothing of the table is shown"),
        Column("value", "string", "value or cell"),
        Column("estimate", "number", f"share of the reports, rounded to {step}; empty where a "
               "symbol stands"),
        Column("std_error", "number", f"standard error of the share, rounded up to {step}"),
        Column("low", "number", f"lower end of the interval, rounded down to {step}"),
        Column("high", "number", f"upper end of the interval, rounded up to {step}"),
        Column("level", "number", "level of the interval, before rounding widened it"),
        Column("symbol", "string", "empty, or why no number is shown"),
    ]  # fmt: skip


def rows_of(release: Release) -> Iterator[tuple[Any, ...]]:
    """The rows of release.csv, one for each cell, in the order of `columns_of`; None for a
    missing number."""
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
        {"name": one.name, "type": one.kind, "description": one.meaning}
        for one in columns_of(release)
    ]


def release_from_json(text: bytes, digest: str = "") -> Release:
    """Read a release from release.json. Raises ReleaseError."""
    return replace(parse(Release, text, ReleaseError), digest=digest)
