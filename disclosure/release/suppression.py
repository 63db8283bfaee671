"""Complementary suppression: hide in a draft what the audit asks to hide; and the audit of releases
that are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from disclosure.release.inference.facts import PublicTable, TableVersion
from disclosure.release.inference.protection import InferredNumber, protect
from disclosure.release.policy import ReleasePolicy
from disclosure.release.tables import NUMBERS, ReleasedTable, TableKey

if TYPE_CHECKING:
    from disclosure.release.build import Release


class Suppressed(NamedTuple):
    """Tables with their complements suppressed, and what was found with them.

    findings: what earlier releases give away.  widened: numbers that contradicted others beyond
    rounding.
    """

    tables: tuple[ReleasedTable, ...]
    findings: tuple[InferredNumber, ...]
    widened: int


def suppress_complements(
    tables: Sequence[ReleasedTable], earlier: Sequence[Release], policy: ReleasePolicy
) -> Suppressed:
    """Suppress further rows and tables whose numbers would narrow down one that is not shown.

    Args:
        tables: the draft.
        earlier: oldest first; what they show cannot be hidden any more.
        policy: of the draft.
    """
    versions = [
        TableVersion(table, release.policy, is_draft=False)
        for release in earlier
        for table in release.tables
    ]
    versions += [TableVersion(table, policy, is_draft=True) for table in tables]
    made = protect(versions)
    done = tuple(_hidden_as(table, made.tables[table.key], policy) for table in tables)
    return Suppressed(done, tuple(made.findings), made.widened)


def _hidden_as(table: ReleasedTable, public: PublicTable, policy: ReleasePolicy) -> ReleasedTable:
    """A table of the draft without the numbers that may not be shown."""
    if table.reports is None:
        return table
    if public.reports is None:
        return withhold(table.key, table.level, policy)
    hidden = {cell for cell, row in zip(public.cells, public.hidden, strict=True) if row}
    symbol = policy.symbol("low_interval")
    gone = [
        row for row, cell in enumerate(table.cells) if cell in hidden and not table.symbols[row]
    ]
    if not gone:
        return table
    columns = {n: getattr(table, n).copy() for n in NUMBERS}
    for values in columns.values():
        values[gone] = np.nan
    symbols = list(table.symbols)
    for row in gone:
        symbols[row] = symbol
    return replace(table, symbols=tuple(symbols), **columns)


def withhold(key: TableKey, level: float, policy: ReleasePolicy) -> ReleasedTable:
    """Make the published form of a withheld table: its key and the symbol, no numbers."""
    none = np.zeros(0)
    symbol = policy.symbol("few_reports")
    return ReleasedTable(*key, None, level, (), (), none, none, none, none, (), withheld=symbol)


@dataclass(frozen=True)
class Audit:
    """The result of an audit. findings: numbers known too well. tables, rows, hidden: counts
    over all releases, each table once.

    widened: numbers that contradict others, and were taken less exactly.
    """

    findings: tuple[InferredNumber, ...]
    tables: int
    rows: int
    hidden: int
    widened: int


def audit_releases(releases: Sequence[Release]) -> Audit:
    """Judge what the tables of several releases tell together, each by its own policy.

    Args:
        releases: oldest first.
    """
    made = protect(
        TableVersion(table, release.policy, is_draft=False)
        for release in releases
        for table in release.tables
    )
    tables = made.tables.values()
    return Audit(
        tuple(made.findings),
        len(tables),
        sum(len(table.cells) for table in tables),
        sum(int(table.hidden.sum()) + (table.reports is None) for table in tables),
        made.widened,
    )
