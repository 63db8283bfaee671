"""Numbers that earlier releases have published, which stay known to readers whatever a later
release omits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from disclosure.errors import ReleaseError
from disclosure.release.policy import ReleasePolicy
from disclosure.release.tables import NUMBERS, InRows, ReleasedTable, TableKey, rows_agree
from disclosure.typing import Integers
from rappor_core.errors import shown

if TYPE_CHECKING:
    from disclosure.release.build import Release


@dataclass(frozen=True)
class Earlier:
    """The tables of earlier releases, the latest of each that was not withheld."""

    tables: Mapping[TableKey, ReleasedTable] = field(default_factory=dict)
    digests: tuple[str, ...] = ()

    @classmethod
    def of(cls, releases: Sequence[Release]) -> Earlier:
        """Collect what several releases have published. releases: oldest first."""
        tables = {
            table.key: table
            for release in releases
            for table in release.tables
            if table.reports is not None
        }
        digests = (release.digest for release in releases if release.digest)
        return cls(tables, tuple(digests))

    def reconcile(self, table: ReleasedTable, policy: ReleasePolicy) -> ReleasedTable:
        """Make a table agree with the earlier release of the same table, if there is one.

        A number that was shown stays as it was: two roundings of two decodings would narrow it
        down. One that was suppressed stays so. A row that is not there any more is added: it is
        known. Rows that are new are new. With `revise` the new numbers stand.

        Where the rows of both do not go together (`_together`), the whole table stays as it was:
        a pool of other cells is another number, and less the earlier one tells of single cells.

        Raises:
            ReleaseError: a number has changed, and the policy refuses that; or the rows do not go
                together, and the policy does not say that what was published stays.
        """
        before = self.tables.get(table.key)
        if before is None:
            return table
        if not _together(table, before, policy):
            return _as_before(table, before, policy)
        table = _with_rows_of(table, before)
        if policy.on_change == "revise":
            return table
        rows = {cell: index for index, cell in enumerate(before.cells)}
        places = np.array([rows.get(cell, -1) for cell in table.cells], dtype=np.int64)
        known = np.flatnonzero(places >= 0)
        if policy.on_change == "refuse":
            _refuse_changes(before, table, known, places)
        columns: dict[str, Any] = {}
        for name in NUMBERS:
            columns[name] = getattr(table, name).copy()
            columns[name][known] = getattr(before, name)[places[known]]
        symbols = list(table.symbols)
        for index in known.tolist():
            symbols[index] = before.symbols[places[index]]
            if symbols[index]:
                symbols[index] = policy.symbol("low_interval")
        return replace(table, reports=before.reports, symbols=tuple(symbols), **columns)


def check_chain(releases: Sequence[Release]) -> None:
    """Raise ReleaseError where a release was built on one that is not given.

    What that one shows would stay unknown here, and could be subtracted.
    """
    known = {release.digest for release in releases}
    for release in releases:
        for digest in release.earlier:
            if digest not in known:
                raise ReleaseError(
                    f"the release of {release.issued} was built on an earlier one that is not "
                    f"given (manifest {digest[:16]}): give all that came before, oldest first"
                )


def refuse_in_rows(earlier: Iterable[Release], metric: str, first: date, last: date) -> None:
    """Raise ReleaseError where an earlier release has days of a metric in synthetic rows."""
    for one in (rows for release in earlier for rows in release.rows):
        if one.meets(metric, first, last):
            raise ReleaseError(
                f"{shown(metric)}: {one.first_day} to {one.last_day} was published in rows, which "
                "tell the estimates without rounding; a decoding is published as a table or in "
                "rows, once"
            )


def refuse_as_table(earlier: Iterable[Release], rows: Iterable[InRows]) -> None:
    """Raise ReleaseError where an earlier release has a table of what is to be published in rows.

    A table that was withheld as a whole is none.
    """
    wanted = list(rows)
    for table in (one for release in earlier for one in release.tables if one.reports is not None):
        if any(one.meets(table.metric, table.first_day, table.last_day) for one in wanted):
            raise ReleaseError(
                f"{table.name} was published as a table: rows would reveal what it rounds and "
                "suppresses; a decoding is published as a table or in rows, once"
            )


def _together(table: ReleasedTable, before: ReleasedTable, policy: ReleasePolicy) -> bool:
    """Whether the rows of both can stand in one table, as parts of one whole.

    Intervals that stay are of the level of the others; each cell is in one row, the same in both; a
    total, which is of the rows listed with it, is of the same rows.
    """
    listed, earlier = (
        {cell for cell, kind in zip(one.cells, one.kinds, strict=True) if kind != "total"}
        for one in (table, before)
    )
    stays = policy.on_change != "revise" or not earlier <= listed
    if table.level != before.level and stays:
        return False
    totals = "total" in (*table.kinds, *before.kinds)
    return rows_agree((table, before)) and (listed == earlier or not totals)


def _as_before(table: ReleasedTable, before: ReleasedTable, policy: ReleasePolicy) -> ReleasedTable:
    """The earlier table once more. Raises ReleaseError unless the policy keeps what was shown."""
    if policy.on_change != "keep":
        raise ReleaseError(
            f"{table.name} was published with other rows than now, by another roll_up, min_low, "
            "total or level; publish it as it was (on_change = keep), or leave it out"
        )
    hidden = policy.symbol("low_interval")
    same = {
        cell
        for cell in before.cells
        if before.members.get(cell) == table.members.get(cell)
        and (cell in before.members or cell not in before.held)
    }
    return replace(
        before,
        symbols=tuple(hidden if symbol else "" for symbol in before.symbols),
        shapes={cell: shape for cell, shape in table.shapes.items() if cell in same},
    )


def _with_rows_of(table: ReleasedTable, before: ReleasedTable) -> ReleasedTable:
    """The table, and below it the rows that only its earlier release has."""
    there = set(table.cells)
    lost = [index for index, cell in enumerate(before.cells) if cell not in there]
    if not lost:
        return table
    columns: dict[str, Any] = {
        name: np.append(getattr(table, name), getattr(before, name)[lost]) for name in NUMBERS
    }
    for name in ("cells", "kinds", "symbols"):
        old = getattr(before, name)
        columns[name] = (*getattr(table, name), *(old[index] for index in lost))
    return replace(
        table,
        complete=table.complete or before.complete,
        members={**before.members, **table.members},
        held={**before.held, **table.held},
        **columns,
    )


def _refuse_changes(
    before: ReleasedTable, table: ReleasedTable, known: Integers, places: Integers
) -> None:
    for name in NUMBERS:
        old, new = getattr(before, name)[places[known]], getattr(table, name)[known]
        other = np.flatnonzero((old != new) & ~(np.isnan(old) & np.isnan(new)))
        if len(other):
            cell = table.cells[int(known[other[0]])]
            raise ReleaseError(
                f"{table.name}: {shown(cell)} was published with another {name}: "
                f"{old[other[0]]:g}, now {new[other[0]]:g}; set on_change to keep or revise"
            )
