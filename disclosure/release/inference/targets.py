"""The unpublished numbers to protect, and the required width of a reader's interval for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple

import numpy as np

from disclosure.release.inference.atoms import bits
from disclosure.release.inference.component import Component
from disclosure.release.inference.unions import differences

Kind = Literal["reports", "share"]
EXACT = 1e-6  # in reports, or a fraction of the width: the tolerance between two solvers


class ValueRange(NamedTuple):
    """The minimum and the maximum of a number that agree with all public data."""

    low: float
    high: float


@dataclass(frozen=True)
class Target:
    """A number to protect: the reports of some atoms, or the share of a value among them."""

    kind: Kind
    atoms: tuple[int, ...]
    leaves: frozenset[str]
    table: int | None  # The table that withholds it; None if only differences of tables imply it
    row: int
    cell: str
    width: float
    shown_from: float

    def is_safe(self, ends: ValueRange) -> bool:
        """Return whether a reader's interval for the number is as wide as promised.

        Reports of a withheld table must range at least from 0 to the floor, so that its symbol
        reveals only that reports are few; or certainly reach the floor, if the table was withheld
        to protect another. Reports without a table may be 0 or may reach the floor. A share needs
        the width; or, without a table, a lower end that the policy would show."""
        low, high = ends
        if self.is_high(low):
            return True
        if self.kind == "reports":
            none, enough = low <= EXACT, high >= self.width - EXACT
            return (none or enough) if self.table is None else (none and enough)
        return high - low >= self.width - EXACT

    def is_high(self, low: float) -> bool:
        """Return whether the policy would publish the lower end, which makes the number safe."""
        if self.kind == "reports":
            return low >= self.width - EXACT
        return self.table is None and low >= self.shown_from - EXACT


def withheld_reports(component: Component) -> Iterator[Target]:
    """Yield the report counts of withheld tables, as targets."""
    for index, table in enumerate(component.tables):
        if table.reports is None:
            atoms = tuple(component.atoms_of(index))
            yield Target("reports", atoms, frozenset(), index, -1, "", table.floor, 0.0)


def hidden_shares(component: Component, table: int, naming: Mapping[str, int]) -> Iterator[Target]:
    """Yield the unpublished shares of a table, as targets.

    These are suppressed rows, and values that only tables about other people name. `naming`
    contains, for each value, bits of the tables that show it separately."""
    facts, rows = component.tables[table], component.rows[table]
    if facts.reports is None:
        return
    atoms = tuple(component.atoms_of(table))
    for row in np.flatnonzero(facts.hidden).tolist():
        if rows[row] and not (facts.complete and facts.kinds[row] == "total"):
            yield hidden_row(component, table, row)
    covered = reduce(or_, (component.atoms[atom] for atom in atoms), 0)
    same = sum(
        1 << i for i in bits(component.atoms[atoms[0]]) if tuple(component.atoms_of(i)) == atoms
    )
    singles = {next(iter(row)) for row in rows if len(row) == 1}
    for leaf, mask in naming.items():
        if mask & covered and not mask & same and leaf not in singles:
            yield Target("share", atoms, frozenset([leaf]), table, -1, leaf, facts.width, 0.0)


def hidden_row(component: Component, table: int, row: int) -> Target:
    """Return the target for the share of a suppressed row."""
    facts = component.tables[table]
    atoms, leaves = tuple(component.atoms_of(table)), component.rows[table][row]
    return Target("share", atoms, leaves, table, row, facts.cells[row], facts.width, 0.0)


def naming_tables(component: Component) -> dict[str, int]:
    """Return, for each value, a bit mask of the tables that show it in a separate row."""
    masks: dict[str, int] = {}
    for index, table in enumerate(component.tables):
        for row in np.flatnonzero(~table.hidden).tolist():
            if table.kinds[row] == "cell":
                cell = table.cells[row]
                masks[cell] = masks.get(cell, 0) | 1 << index
    return masks


def untold_groups(component: Component, tables: int) -> list[tuple[int, ...]]:
    """Return groups of atoms that no table shows: single atoms, and differences of tables.

    `tables` is a bit mask of the tables whose differences count."""
    by_table = {
        index: tuple(atom for atom in component.atoms_of(index) if not component.empty[atom])
        for index, table in enumerate(component.tables)
        if table.reports is not None
    }
    shown_atoms = frozenset(by_table[index] for index in bits(tables) if index in by_table)
    alone = [(atom,) for atom, is_empty in enumerate(component.empty) if not is_empty]
    known = set(by_table.values())
    return [key for key in dict.fromkeys([*alone, *differences(shown_atoms)]) if key not in known]


def untabled_reports(component: Component) -> Iterator[Target]:
    """Yield the report counts of groups of atoms without a table, as targets."""
    floor = min(table.floor for table in component.tables)
    withheld = {tuple(atom for atom in target.atoms if not component.empty[atom])
                for target in withheld_reports(component)}  # fmt: skip
    for atoms in untold_groups(component, (1 << len(component.tables)) - 1):
        if atoms in withheld:
            continue
        yield Target("reports", atoms, frozenset(), None, -1, "", floor, 0.0)


def untabled_shares(component: Component, naming: Mapping[str, int]) -> Iterator[Target]:
    """Yield the shares of every value in groups of atoms without a table, as targets.

    The groups are differences of the tables that show the value."""
    width = min(table.width for table in component.tables)
    least = min(table.min_low for table in component.tables)
    groups = {mask: untold_groups(component, mask) for mask in set(naming.values())}
    for leaf, mask in naming.items():
        for atoms in groups[mask]:
            if any(component.atoms[atom] & mask for atom in atoms):
                leaves = frozenset([leaf])
                yield Target("share", atoms, leaves, None, -1, leaf, width, least)
