"""A release as plain values: the rows and columns of its files, and release.json and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from disclosure.errors import PublicationError, ReleaseError
from disclosure.release.build import Release
from disclosure.release.policy import ReleasePolicy, parse_policy
from disclosure.release.tables import NUMBERS, InRows, ReleasedTable, stratum_key
from disclosure.typing import Floats
from rappor_core.errors import shown


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


def numbers_or_none(values: Floats) -> list[float | None]:
    """The numbers of a column, None where it has none."""
    return [None if value != value else value for value in values.tolist()]


def release_to_plain(release: Release) -> dict[str, Any]:
    """The release as plain values: tables by column, a data dictionary, the meaning of the
    symbols."""
    return {
        "issued": release.issued.isoformat(),
        "policy": release.policy.to_dict(),
        "symbols": release.policy.legend(),
        "earlier": list(release.earlier),
        "notes": list(release.notes),
        "dictionary": [
            {"name": one.name, "type": one.kind, "description": one.meaning}
            for one in columns_of(release)
        ],
        "tables": [_table_to_plain(table) for table in release.tables],
        "rows": [[one.metric, str(one.first_day), str(one.last_day)] for one in release.rows],
    }


def release_from_plain(plain: Mapping[str, Any], digest: str = "") -> Release:
    """Read a release from plain values. Raises ReleaseError."""
    try:
        return Release(
            policy_from_plain(plain["policy"]),
            date.fromisoformat(plain["issued"]),
            tuple(_table_from_plain(one) for one in plain["tables"]),
            tuple(map(str, plain["earlier"])),
            tuple(map(str, plain["notes"])),
            digest,
            tuple(
                InRows(str(metric), date.fromisoformat(first), date.fromisoformat(last))
                for metric, first, last in plain.get("rows", [])
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
        if isinstance(error, PublicationError):
            raise ReleaseError(f"release.json: {error}") from None
        raise ReleaseError(f"release.json cannot be used: {shown(error)}") from None


def policy_from_plain(plain: Mapping[str, Any]) -> ReleasePolicy:
    """Read a policy from the plain values that `ReleasePolicy.to_dict` writes."""
    table = {name: value for name, value in plain.items() if value is not None}
    for name in ("first_day", "last_day"):
        if name in table:
            table[name] = date.fromisoformat(table[name])
    table["rounding"] = Decimal(table["rounding"])
    rules = table.get("roll_up", {}).items()
    table["roll_up"] = {
        metric: {name: value for name, value in rule.items() if value is not None}
        for metric, rule in rules
    }
    return parse_policy(table)


def _table_to_plain(table: ReleasedTable) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "metric": table.metric,
        "strata": dict(table.strata),
        "first_day": table.first_day.isoformat(),
        "last_day": table.last_day.isoformat(),
        "reports": table.reports,
        "level": table.level,
        "complete": table.complete,
        "withheld": table.withheld,
        "cells": list(table.cells),
        "kinds": list(table.kinds),
        "symbols": list(table.symbols),
        "held": dict(table.held),
        "members": {name: list(cells) for name, cells in table.members.items()},
    }
    for name in NUMBERS:
        plain[name] = numbers_or_none(getattr(table, name))
    return plain


def _table_from_plain(plain: Mapping[str, Any]) -> ReleasedTable:
    columns: dict[str, Any] = {name: _floats(plain[name]) for name in NUMBERS}
    cells, kinds, symbols = (tuple(map(str, plain[n])) for n in ("cells", "kinds", "symbols"))
    if {len(cells), len(kinds), len(symbols), *map(len, columns.values())} != {len(cells)}:
        raise ValueError("columns of several lengths")
    return ReleasedTable(
        metric=str(plain["metric"]),
        strata=stratum_key(plain["strata"]),
        first_day=date.fromisoformat(plain["first_day"]),
        last_day=date.fromisoformat(plain["last_day"]),
        reports=None if plain["reports"] is None else int(plain["reports"]),
        level=float(plain["level"]),
        cells=cells,
        kinds=kinds,
        symbols=symbols,
        complete=bool(plain["complete"]),
        withheld=str(plain["withheld"]),
        members={name: tuple(map(str, held)) for name, held in plain["members"].items()},
        held={str(name): int(held) for name, held in plain["held"].items()},
        **columns,
    )


def _floats(values: list[Any]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
