"""Numbers in earlier releases, which readers still have even if a later release omits them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from disclosure.errors import ReleaseError
from disclosure.release.policy import ReleasePolicy
from disclosure.release.tables import NUMBERS, InRows, ReleasedTable, TableKey
from rappor_core.errors import shown

if TYPE_CHECKING:
    from disclosure.release.build import Release


def check_chain(releases: Sequence[Release]) -> tuple[str, ...]:
    """Return the digests of the releases that a new release is built on.

    Raises ReleaseError if a release was built on a release that is not given, because that
    release's numbers would be unknown here but could be subtracted."""
    digests = {release.digest for release in releases}
    for release in releases:
        for digest in release.earlier:
            if digest not in digests:
                raise ReleaseError(
                    f"the release of {release.issued} was built on an earlier release that is "
                    f"missing (manifest {digest[:16]}): pass all earlier releases, oldest first"
                )
    return tuple(release.digest for release in releases if release.digest)


def refuse_in_rows(earlier: Iterable[Release], metric: str, first: date, last: date) -> None:
    """Raise ReleaseError if an earlier release has some of these days as synthetic rows."""
    for run in (rows for release in earlier for rows in release.rows):
        if run.meets(metric, first, last):
            raise ReleaseError(
                f"{shown(metric)}: {run.first_day} to {run.last_day} was published in rows, "
                "which reveal the estimates without rounding; publish a decoding once, as a "
                "table or in rows"
            )


def published_tables(releases: Iterable[Release]) -> dict[TableKey, ReleasedTable]:
    """Return the latest version of each table that was not withheld; releases are oldest first."""
    every = (table for release in releases for table in release.tables)
    return {table.key: table for table in every if table.reports is not None}


def refuse_as_table(earlier: Iterable[Release], rows: Sequence[InRows]) -> None:
    """Raise ReleaseError if an earlier release published some of these days as a table."""
    for table in published_tables(earlier).values():
        if any(row.meets(table.metric, table.first_day, table.last_day) for row in rows):
            raise ReleaseError(
                f"{table.name} was published as a table: rows would reveal what it rounds and "
                "suppresses; publish a decoding once, as a table or in rows"
            )


def reconcile(
    table: ReleasedTable, before: ReleasedTable | None, policy: ReleasePolicy
) -> ReleasedTable:
    """Make a table agree with the earlier release of the same table, if there is one.

    Published numbers do not change, since two roundings of two decodings would narrow a number
    down. Suppressed ones stay suppressed. Rows that no longer occur are added, since they are
    known; new rows are added as they are. With `revise` the new numbers are used. If the rows do
    not go together (`_together`), the whole table stays unchanged: a pool of other cells is another
    number, and its difference to the earlier one reveals something about single cells.

    Raises:
        ReleaseError: A number has changed and the policy rejects that, or the rows are incompatible
            and the policy does not keep published tables.
    """
    if before is None:
        return table
    if not _together(table, before, policy):
        return _as_before(table, before, policy)
    rows, old = table.rows(), before.rows()
    if policy.on_change == "refuse":
        for name in NUMBERS:
            for cell in filter(old.__contains__, rows):
                first, now = getattr(old[cell], name), getattr(rows[cell], name)
                if first != now and (first == first or now == now):  # NaN differs from itself
                    raise ReleaseError(
                        f"{table.name}: {shown(cell)} was published with another {name}: "
                        f"{first:g}, now {now:g}; set on_change to keep or revise"
                    )
    if policy.on_change == "revise":
        rows |= {cell: row for cell, row in old.items() if cell not in rows}
    else:
        symbol = policy.symbol("low_interval")
        table = replace(table, reports=before.reports)
        rows |= {cell: row._replace(symbol=row.symbol and symbol) for cell, row in old.items()}
    is_longer = len(rows) > len(table.cells)
    return table.with_rows(
        rows,
        complete=table.complete or (is_longer and before.complete),
        members={**before.members, **table.members} if is_longer else table.members,
        held={**before.held, **table.held} if is_longer else table.held,
    )


def _together(table: ReleasedTable, before: ReleasedTable, policy: ReleasePolicy) -> bool:
    """Return whether the rows of both tables can be combined, as parts of one whole.

    Both have intervals at the same level. Each cell is in the same row of both; if the members of a
    pool are not named, all rows are the same. A total, which sums the rows listed with it, is over
    the same rows."""
    listed, earlier = (
        {cell for cell, kind in zip(side.cells, side.kinds, strict=True) if kind != "total"}
        for side in (table, before)
    )
    stays = policy.on_change != "revise" or not earlier <= listed
    if table.level != before.level and stays:
        return False
    if listed != earlier and "total" in (*table.kinds, *before.kinds):
        return False
    parts: dict[str, tuple[str, ...]] = {}
    for side in (table, before):
        for cell in side.cells:
            members = side.members.get(cell, (cell,))
            if parts.setdefault(cell, members) != members:
                return False
    every = [cell for members in parts.values() for cell in members]
    is_same = set(table.cells) == set(before.cells) and table.held == before.held
    are_named = all(side.held.keys() <= side.members.keys() for side in (table, before))
    return len(set(every)) == len(every) and (is_same or are_named)


def _as_before(table: ReleasedTable, before: ReleasedTable, policy: ReleasePolicy) -> ReleasedTable:
    """Return the earlier table again. Raises ReleaseError unless the policy keeps it."""
    if policy.on_change != "keep":
        raise ReleaseError(
            f"{table.name} was published with different rows (another roll_up, min_low, total or "
            "level); keep the published form (on_change = keep), or leave it out"
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
