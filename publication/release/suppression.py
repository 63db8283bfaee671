"""Complements over all tables of a release and of earlier ones: which sums hold, and what hides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from publication.errors import ReleaseError
from publication.release.complement import Network, complement
from publication.release.policy import ReleasePolicy
from publication.release.remainder import Remainder, remainder_of, remaining_reports
from publication.release.strata import Family, families
from publication.release.tables import ReleasedTable, TableKey, rows_agree
from publication.typing import Booleans

_UNKNOWN = 0  # the node of all sums that nobody knows


def suppress_complements(
    tables: Sequence[ReleasedTable],
    earlier: Mapping[TableKey, ReleasedTable],
    policy: ReleasePolicy,
    seen: Mapping[TableKey, Collection[str]],
) -> list[ReleasedTable]:
    """Suppress what gives a suppressed number away.

    Sums that hold: over the cells of a table that is complete or shows its total; over the parts
    of a table that stands beside them, in this release or an earlier one. Where the parts do not
    hold everybody, what is left is a table that can be computed, and that is judged like one.

    Args:
        tables: of the release.
        earlier: the latest form of each earlier one.
        policy: of the release.
        seen: by table, the cells whose number any earlier release shows.

    Raises:
        ReleaseError: earlier releases show too much for a number to be protected; or a table and
            its parts pool other cells, so that what can be computed is not a network.
    """
    shown = {table.key: table for table in tables if table.reports is not None}
    known = {key: table for key, table in earlier.items() if key not in shown} | shown
    reports = {key: table.reports for key, table in known.items() if table.reports is not None}
    tolerance = policy.reports_rounding - 1
    left = {one: remaining_reports(one, reports, tolerance) for one in families(known)}
    together = {
        key: one for one, rest in left.items() if rest >= 0 for key in (one.whole, *one.parts)
    }
    done: dict[TableKey, ReleasedTable] = {}
    for key in shown:
        if key in done:
            continue
        family = together.get(key, Family(key, ()))
        members = [known[one] for one in (family.whole, *family.parts)]
        if not rows_agree(members):
            raise ReleaseError(
                f"{members[0].name}: it and its parts pool other cells; what one tells of the "
                "others is not judged: publish it without them, or without roll_up"
            )
        rows = list(dict.fromkeys(cell for table in members for cell in table.cells))
        rest = remainder_of(members, rows, policy) if left.get(family, 0) else None
        done |= _suppress(members, rows, rest, set(shown), seen, policy)
    return [done.get(table.key, table) for table in tables]


def _suppress(
    members: Sequence[ReleasedTable],
    rows: Sequence[str],
    rest: Remainder | None,
    new: Collection[TableKey],
    seen: Mapping[TableKey, Collection[str]],
    policy: ReleasePolicy,
) -> dict[TableKey, ReleasedTable]:
    """The new tables among `members`, which add up, with their complements suppressed."""
    network, starts = _network(members, rows, rest, seen)
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
    rows: Sequence[str],
    rest: Remainder | None,
    seen: Mapping[TableKey, Collection[str]],
) -> tuple[Network, list[int]]:
    """Cells of the tables one after the other, what a table does not list, and the remainder."""
    of_cell = {cell: index + 1 for index, cell in enumerate(rows)}
    ends, hidden, fixed, cost, starts = [], [], [], [], []
    count = 0
    for column, table in enumerate(members):
        top = 1 + len(rows) + column if table.complete or table.has_total else _UNKNOWN
        of_row = np.array([of_cell[cell] for cell in table.cells], dtype=np.int64)
        if len(members) == 1:
            of_row[:] = _UNKNOWN
        ends.append(np.column_stack([of_row, np.full(len(of_row), top, dtype=np.int64)]))
        is_known = _known(table, seen.get(table.key, ()))
        is_shown = table.is_shown
        hidden.append(~is_shown & ~is_known)
        fixed.append(is_known)
        cost.append(np.where(is_shown, np.maximum(np.nan_to_num(table.estimate), 0.0), 0.0))
        starts.append(count)
        count += len(of_row)
    further = [
        (of_cell[cell], _UNKNOWN) for table in members for cell in of_cell.keys() - set(table.cells)
    ]
    secret = [np.ones(count + len(further), dtype=bool)]
    if rest is not None:
        top = 1 + len(rows) + len(members) if rest.sum_known else _UNKNOWN
        further = sorted(further) + [(of_cell[cell], top) for cell in rows]
        secret.append(rest.secret)
    ends.append(np.array(further, dtype=np.int64).reshape(-1, 2))
    hidden.append(np.ones(len(further), dtype=bool))
    fixed.append(np.zeros(len(further), dtype=bool))
    cost.append(np.zeros(len(further)))
    joined = (np.concatenate(parts) for parts in (ends, hidden, fixed, cost, secret))
    return Network(*joined), starts


def _known(table: ReleasedTable, seen: Collection[str]) -> Booleans:
    """(n,) cells whose number an earlier release shows, and the sum of all shares, which is 1."""
    rows = zip(table.cells, table.kinds, strict=True)
    known = [cell in seen or (table.complete and kind == "total") for cell, kind in rows]
    return np.array(known, dtype=bool)


def _hide(table: ReleasedTable, indices: Sequence[int], symbol: str) -> ReleasedTable:
    symbols = list(table.symbols)
    columns = {n: getattr(table, n).copy() for n in ("estimate", "std_error", "low", "high")}
    for index in indices:
        symbols[index] = symbol
    for values in columns.values():
        values[indices] = np.nan
    return replace(table, symbols=tuple(symbols), **columns)
