"""Complementary suppression: hide in a draft what the audit asks to hide, and advise what to leave
out; and the audit of releases that are published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from disclosure.release.inference.facts import PublicTable, TableVersion
from disclosure.release.inference.protection import InferredNumber, protect
from disclosure.release.policy import ReleasePolicy
from disclosure.release.tables import NUMBERS, ReleasedTable, TableKey
from rappor_core.text import visible

if TYPE_CHECKING:
    from disclosure.release.build import Release

MUCH = 1 / 3  # of the rows that the thresholds let through
_MAX_TRIED = 6


class TableKind(NamedTuple):
    """A kind of tables: of one metric, split by the same strata, over equally many days."""

    metric: str
    strata: tuple[str, ...]
    days: int

    def __str__(self) -> str:
        """For a note."""
        split = f"by {' and '.join(self.strata)}" if self.strata else "of everybody"
        return f"{split} over {self.days} day{'s' if self.days > 1 else ''}"


def advice(
    versions: Sequence[TableVersion], protected: Mapping[TableKey, PublicTable]
) -> Iterator[str]:
    """For each metric of which more than MUCH is suppressed: how much, and which kind of table
    to leave out.

    The tables of one kind after another are taken out of the draft, and the others judged again;
    the kind without which most rows are shown is named.

    Args:
        versions: of all releases, those of the draft as its thresholds let them through.
        protected: what may be shown of each table.
    """
    for metric in dict.fromkeys(one.table.metric for one in versions if one.is_draft):
        own = [one for one in versions if one.table.metric == metric]
        draft = [one.table for one in own if one.is_draft]
        asked, shown = sum(map(_rows, draft)), _shown(draft, protected)
        if shown < (1 - MUCH) * asked:
            yield (
                f"Of {visible(metric)}, {asked - shown} of {asked} rows that the thresholds let "
                f"through are suppressed, so that others cannot be inferred. {_way_out(own, shown)}"
            )


def _way_out(versions: Sequence[TableVersion], shown: int) -> str:
    kinds: dict[TableKind, list[TableKey]] = {}
    for one in versions:
        if one.is_draft:
            kinds.setdefault(_kind(one.table), []).append(one.table.key)
    sizes = {kind: len(keys) for kind, keys in kinds.items()}
    best, most = None, shown
    for kind in sorted(kinds, key=lambda one: (sizes[one], one))[:_MAX_TRIED]:
        left = [one for one in versions if not (one.is_draft and _kind(one.table) == kind)]
        rest = [one.table for one in left if one.is_draft]
        found = _shown(rest, protect(left).tables)
        if found > most:
            best, most = kind, found
    if best is None:
        return (
            "Pool small values (roll_up), or publish fewer values of a stratum, or fewer windows."
        )
    it = "it" if sizes[best] == 1 else "them"
    tables = "table" if sizes[best] == 1 else f"{sizes[best]} tables"
    return f"Without the {tables} {best}, {most} rows are shown, not {shown}: leave {it} out."


def _kind(table: ReleasedTable) -> TableKind:
    names = tuple(name for name, _ in table.strata)
    return TableKind(table.metric, names, (table.last_day - table.first_day).days + 1)


def _rows(table: ReleasedTable) -> int:
    return 0 if table.reports is None else int(table.is_shown.sum())


def _shown(tables: Sequence[ReleasedTable], protected: Mapping[TableKey, PublicTable]) -> int:
    """Rows with a number, of those that are shown before any is suppressed."""
    found = 0
    for table in tables:
        public = protected[table.key]
        if table.reports is not None and public.reports is not None:
            hidden = dict(zip(public.cells, public.hidden.tolist(), strict=True))
            found += sum(
                not symbol and not hidden[cell]
                for cell, symbol in zip(table.cells, table.symbols, strict=True)
            )
    return found


@dataclass(frozen=True)
class Suppressed:
    """The result of complementary suppression. tables: with their complements suppressed.
    findings: what earlier releases give away.

    widened: numbers that contradicted others beyond rounding.  advice: what to leave out, where
    much is suppressed.
    """

    tables: tuple[ReleasedTable, ...]
    findings: tuple[InferredNumber, ...]
    widened: int
    advice: tuple[str, ...]


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
    return Suppressed(
        done, tuple(made.findings), made.widened, tuple(advice(versions, made.tables))
    )


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
