"""The public facts about a table: bounds on its reports and shares, from all of its releases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disclosure.release.inference.atoms import TableScope
from disclosure.release.policy import ReleasePolicy, Tree
from disclosure.release.tables import PARTITION, ReleasedTable, TableKey, table_name
from disclosure.typing import Booleans, Floats, Integers

ROOT = "*"  # the root of every tree of `disclosure.release.pooling`


class TableVersion(NamedTuple):
    """A table in one release; `is_draft` if that release is not published yet."""

    table: ReleasedTable
    policy: ReleasePolicy
    is_draft: bool


@dataclass(frozen=True)
class PublicTable:
    """What readers know about a table: bounds on its reports and on the share of each row."""

    key: TableKey
    scope: TableScope
    reports: tuple[float, float] | None  # Minimum and maximum; None if withheld
    cells: tuple[str, ...]
    kinds: tuple[str, ...]
    low: Floats  # Of the share before rounding
    high: Floats
    loose: Booleans  # Flags of the rows that can still be suppressed
    persons: Floats  # Shown share times reports
    is_loose: bool  # Whether the whole table can still be withheld
    complete: bool
    floor: float  # Minimum number of reports
    min_low: float  # The smallest lower end that the policy shows
    step: float  # Of rounding
    members: Mapping[str, tuple[str, ...]]
    tree: Tree = ""  # The tree along which rows without named members were pooled

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return table_name(self.key)

    @property
    def hidden(self) -> Booleans:
        """Flags of the rows without a number, (rows,)."""
        flags: Booleans = np.isnan(self.low)
        return flags

    @property
    def totals(self) -> Booleans:
        """Flags of the rows that are sums of all others, (rows,)."""
        return np.array([kind == "total" for kind in self.kinds], dtype=bool)

    @property
    def width(self) -> float:
        """The minimum width of a reader's interval for a hidden share."""
        return max(self.min_low, 2 * self.step)

    def suppressed(self, rows: Sequence[int] | Integers) -> PublicTable:
        """Return a copy of the table with these rows suppressed."""
        low, high, loose = self.low.copy(), self.high.copy(), self.loose.copy()
        low[rows], high[rows], loose[rows] = np.nan, np.nan, False
        return replace(self, low=low, high=high, loose=loose)

    def withheld(self) -> PublicTable:
        """Return a copy of the table without numbers."""
        none = np.zeros(0)
        return replace(
            self, reports=None, cells=(), kinds=(), low=none, high=none, persons=none,
            loose=none.astype(bool), is_loose=False, complete=False,
        )  # fmt: skip


def public_tables(versions: Iterable[TableVersion]) -> list[PublicTable]:
    """Combine the versions of each table, oldest first, into the public facts about it."""
    by_key: dict[TableKey, list[TableVersion]] = defaultdict(list)
    for version in versions:
        by_key[version.table.key].append(version)
    return [_combined(several) for several in by_key.values()]


def _combined(versions: Sequence[TableVersion]) -> PublicTable:
    """Return the latest published table; numbers that it hides come from earlier versions.

    A number that two releases round differently is in the intersection of both intervals."""
    open_ = [item for item in versions if item.table.reports is not None]
    base = _public(open_[-1] if open_ else versions[-1])
    for version in reversed(open_[:-1]):
        base = _with_earlier(base, _public(version))
    return base


def _public(version: TableVersion) -> PublicTable:
    table, policy, is_draft = version
    low, high = _share_bounds(table, float(policy.rounding))
    reports = table.reports
    sizes = np.nan_to_num(table.estimate) * (reports or 0)
    return PublicTable(
        key=table.key,
        scope=TableScope(
            policy.with_outer(
                tuple(stratum for stratum in table.strata if stratum[0] != PARTITION)
            ),
            table.first_day,
            table.last_day,
            {stratum: _outer(policy, stratum) for stratum in table.strata},
        ),
        reports=None if reports is None else (reports, reports + policy.reports_rounding - 1.0),
        cells=table.cells,
        kinds=table.kinds,
        low=low,
        high=high,
        loose=np.full(len(low), is_draft) & ~np.isnan(low),
        persons=np.maximum(sizes, 0.0),
        is_loose=is_draft and reports is not None,
        complete=table.complete,
        floor=float(policy.min_reports),
        min_low=policy.min_low,
        step=float(policy.rounding),
        members=table.members,
        tree=policy.roll_up[table.metric].tree if table.metric in policy.roll_up else "",
    )


def _outer(policy: ReleasePolicy, key: tuple[str, str]) -> dict[str, str]:
    return {name: value for name, value in policy.with_outer((key,)).items() if name != key[0]}


def _share_bounds(table: ReleasedTable, step: float) -> tuple[Floats, Floats]:
    """Return the interval of each share before it was rounded.

    The ends of its interval were rounded outward, so the middle of the shown interval is near the
    original middle. If that may be the estimate itself, both bound the share."""
    visible = table.is_shown
    middle = (table.low + table.high) / 2
    with np.errstate(invalid="ignore"):
        is_middle = np.abs(middle - table.estimate) < step / 2 * (1 + 1e-9)
    half = step / 2
    low = table.estimate - half + np.where(is_middle, np.maximum(middle - table.estimate, 0), 0)
    high = table.estimate + half + np.where(is_middle, np.minimum(middle - table.estimate, 0), 0)
    if table.complete:
        total = np.array([kind == "total" for kind in table.kinds], dtype=bool) & visible
        low, high = np.where(total, 1.0, low), np.where(total, 1.0, high)
    return np.where(visible, np.maximum(low, 0.0), np.nan), np.where(visible, high, np.nan)


def _with_earlier(base: PublicTable, before: PublicTable) -> PublicTable:
    """Add the numbers of an earlier release, which can no longer be suppressed."""
    place = {cell: row for row, cell in enumerate(base.cells)}
    low, high, loose = base.low.copy(), base.high.copy(), base.loose.copy()
    added = []
    for row in np.flatnonzero(~before.hidden).tolist():
        at = place.get(before.cells[row])
        if at is None:
            added.append(row)
        elif np.isnan(low[at]):
            low[at], high[at], loose[at] = before.low[row], before.high[row], False
        else:
            both = max(low[at], before.low[row]), min(high[at], before.high[row])
            if both[0] <= both[1]:
                low[at], high[at] = both
            loose[at] = False
    return replace(
        base,
        is_loose=False,
        cells=(*base.cells, *(before.cells[row] for row in added)),
        kinds=(*base.kinds, *(before.kinds[row] for row in added)),
        low=np.append(low, before.low[added]),
        high=np.append(high, before.high[added]),
        loose=np.append(loose, np.zeros(len(added), dtype=bool)),
        persons=np.append(base.persons, before.persons[added]),
        complete=base.complete or before.complete,
        members={**before.members, **base.members},
    )


def leaves_of_rows(tables: Sequence[PublicTable]) -> list[list[frozenset[str]]]:
    """Return, for each row of each table, the values that it sums.

    A pool with unnamed members contains everything below its node that is not shown separately: the
    values that other tables name, and the remainder under the node's name."""
    universe: dict[str, None] = {}
    for table in tables:
        for cell, kind in zip(table.cells, table.kinds, strict=True):
            if kind != "total":
                universe |= dict.fromkeys(table.members.get(cell, (cell,)))
    return [list(_rows_of(table, universe)) for table in tables]


def _rows_of(table: PublicTable, universe: Mapping[str, None]) -> Iterator[frozenset[str]]:
    pools = [
        cell
        for cell, kind in zip(table.cells, table.kinds, strict=True)
        if kind == "merged" and cell not in table.members
    ]
    leaves: dict[str, set[str]] = {cell: {cell} for cell in pools}
    if pools:
        named = set(table.cells).union(*table.members.values())
        for leaf in universe.keys() - named:
            above = [pool for pool in pools if is_under(leaf, pool, table.tree)]
            if above:
                leaves[max(above, key=len)].add(leaf)
    every = frozenset(
        leaf
        for cell, kind in zip(table.cells, table.kinds, strict=True)
        if kind != "total"
        for leaf in leaves.get(cell) or table.members.get(cell, (cell,))
    )
    for cell, kind in zip(table.cells, table.kinds, strict=True):
        if kind == "total":
            yield every
        else:
            yield frozenset(leaves.get(cell) or table.members.get(cell, (cell,)))


def is_under(value: str, node: str, tree: Tree) -> bool:
    """Return whether a value or node is below a node in a tree of `disclosure.release.pooling`."""
    if value == node or not tree:
        return False
    if node == ROOT:
        return True
    if tree == "domain":
        end = node.removeprefix(ROOT)
        return value.endswith(end) or value == end[1:]
    return value.startswith(node.removesuffix(ROOT) if tree == "prefix" else node)
