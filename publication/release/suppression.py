"""Complements over all tables of a release and of earlier ones: which sums hold, and what hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from publication.errors import ReleaseError
from publication.release.complement import Network, complement
from publication.release.policy import ReleasePolicy
from publication.release.strata import Family, adds_up, families
from publication.release.tables import ReleasedTable, TableKey, rows_agree
from publication.typing import Booleans

_UNKNOWN = 0  # the node of all sums that nobody knows


def suppress_complements(
    tables: Sequence[ReleasedTable],
    earlier: Mapping[TableKey, ReleasedTable],
    policy: ReleasePolicy,
) -> list[ReleasedTable]:
    """Suppress what gives a suppressed number away.

    Sums that hold: over the cells of a table that is complete or shows its total; over the parts
    of a table that stands beside them, in this release or an earlier one, if they hold everybody.

    Raises:
        ReleaseError: earlier releases show too much for a number to be protected; or tables that
            add up pool other cells, so that what can be computed is not a network.
    """
    shown = {table.key: table for table in tables if table.reports is not None}
    known = {key: table for key, table in earlier.items() if key not in shown} | shown
    reports = {key: table.reports for key, table in known.items() if table.reports is not None}
    tolerance = policy.reports_rounding - 1
    sums = [one for one in families(known) if adds_up(one, reports, tolerance)]
    together = {key: one for one in sums for key in (one.whole, *one.parts)}
    done: dict[TableKey, ReleasedTable] = {}
    for key in shown:
        if key in done:
            continue
        family = together.get(key, Family(key, ()))
        members = [known[one] for one in (family.whole, *family.parts)]
        if not rows_agree(members):
            raise ReleaseError(
                f"{members[0].name}: it and the tables that add up to it pool other cells; what "
                "one tells of the others is not judged: publish it without them, or without roll_up"
            )
        done |= _suppress(members, set(shown), earlier, policy)
    return [done.get(table.key, table) for table in tables]


def _suppress(
    members: Sequence[ReleasedTable],
    new: set[TableKey],
    earlier: Mapping[TableKey, ReleasedTable],
    policy: ReleasePolicy,
) -> dict[TableKey, ReleasedTable]:
    """The new tables among `members`, which add up, with their complements suppressed."""
    rows: dict[str, int] = {}
    for table in members:
        for cell in table.cells:
            rows.setdefault(cell, len(rows))
    network, starts = _network(members, rows, earlier)
    added = complement(network)
    symbol = policy.symbol("complement")
    found = {}
    for table, start in zip(members, starts, strict=True):
        if table.key not in new:
            continue
        mine = added[(added >= start) & (added < start + len(table.cells))] - start
        found[table.key] = _hide(table, mine.tolist(), symbol) if len(mine) else table
    return found


def _network(
    members: Sequence[ReleasedTable],
    rows: Mapping[str, int],
    earlier: Mapping[TableKey, ReleasedTable],
) -> tuple[Network, list[int]]:
    """Cells of the tables one after the other, then what a table does not list."""
    ends, hidden, fixed, cost, starts = [], [], [], [], []
    count = 0
    for column, table in enumerate(members):
        sum_known = table.complete or table.has_total
        top = 1 + len(rows) + column if sum_known else _UNKNOWN
        of_row = np.array([rows[cell] + 1 for cell in table.cells], dtype=np.int64)
        if len(members) == 1:
            of_row[:] = _UNKNOWN
        ends.append(np.column_stack([of_row, np.full(len(of_row), top, dtype=np.int64)]))
        is_shown = table.is_shown
        hidden.append(~is_shown)
        fixed.append(_fixed(table, earlier))
        cost.append(np.where(is_shown, np.maximum(np.nan_to_num(table.estimate), 0.0), 0.0))
        starts.append(count)
        count += len(of_row)
    if len(members) > 1:
        missing = [
            (rows[cell] + 1, _UNKNOWN)
            for table in members
            for cell in rows.keys() - set(table.cells)
        ]
        ends.append(np.array(sorted(missing), dtype=np.int64).reshape(-1, 2))
        hidden.append(np.ones(len(missing), dtype=bool))
        fixed.append(np.zeros(len(missing), dtype=bool))
        cost.append(np.zeros(len(missing)))
    return Network(*(np.concatenate(parts) for parts in (ends, hidden, fixed, cost))), starts


def _fixed(table: ReleasedTable, earlier: Mapping[TableKey, ReleasedTable]) -> Booleans:
    """Cells that an earlier release shows."""
    before = earlier.get(table.key)
    if before is None:
        return np.zeros(len(table.cells), dtype=bool)
    seen = {cell for cell, flag in zip(before.cells, before.is_shown, strict=True) if flag}
    return np.array([cell in seen for cell in table.cells], dtype=bool)


def _hide(table: ReleasedTable, indices: Sequence[int], symbol: str) -> ReleasedTable:
    symbols = list(table.symbols)
    columns = {n: getattr(table, n).copy() for n in ("estimate", "std_error", "low", "high")}
    for index in indices:
        symbols[index] = symbol
    for values in columns.values():
        values[indices] = np.nan
    return replace(table, symbols=tuple(symbols), **columns)
