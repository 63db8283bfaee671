"""The tables that share atoms, as one set of linear constraints."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from disclosure.release.inference.atoms import bits
from disclosure.release.inference.facts import PublicTable
from disclosure.release.inference.programs import Cone, SparseRows

REPORTS = -1  # in place of a row: the table's number of reports
EVERYBODY = -2  # in place of a row: the table's cells cover everyone
NOBODY = -3  # not from a table: people with a value cannot exceed the reports


@dataclass
class Component:
    """Tables of one metric that are connected by common atoms, directly or through others."""

    tables: list[PublicTable]
    atoms: list[int]  # For each atom, bits of the tables that contain it
    rows: list[list[frozenset[str]]]  # For each table and row, the values whose sum it is
    empty: list[bool] = field(default_factory=list)  # Atoms that are assumed to contain no one
    # The indistinguishable values that a value represents (`one_of_alike`)
    alike: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def _atoms_of(self) -> list[list[int]]:
        atoms = [list[int]() for _ in self.tables]
        for atom, mask in enumerate(self.atoms):
            for table in bits(mask):
                atoms[table].append(atom)
        return atoms

    def atoms_of(self, table: int) -> list[int]:
        """Return the indices of the atoms of a table."""
        return self._atoms_of[table]

    def leaf_groups(self) -> list[list[str]]:
        """Return groups of values that a multi-value row or a complete table connects."""
        linked = DisjointSet()
        for table, rows in zip(self.tables, self.rows, strict=True):
            every: frozenset[str] = frozenset().union(*rows)
            for row in [*rows, every] if table.complete else rows:
                leaves = sorted(row)
                for leaf in leaves:
                    linked.add(leaf)
                    linked.merge(leaves[0], leaf)
        groups: dict[str, list[str]] = {}
        for leaf in linked:
            groups.setdefault(linked[leaf], []).append(leaf)
        return list(groups.values())


def one_of_alike(
    tables: Sequence[PublicTable], rows: Sequence[Sequence[frozenset[str]]]
) -> tuple[list[list[frozenset[str]]], dict[str, tuple[str, ...]]]:
    """Replace values that no public number distinguishes with two: one of them, and all others.

    Values are alike if the same multi-value rows contain them and the same tables suppress them.
    Inferences about one value apply to each. Representing all others by one unknown changes
    nothing, because only their sum with the first value occurs.

    Args:
        tables: The tables of a component.
        rows: The values whose sum each row of each table is.

    Returns:
        The rows without the omitted values, and for each representative all values that it
            represents, including itself.
    """
    by_leaf: dict[str, list[tuple[int, int]]] = {}
    for index, (table, several) in enumerate(zip(tables, rows, strict=True)):
        hidden = table.hidden.tolist()
        for number, row in enumerate(several):
            place = (index, -1 if len(row) == 1 and hidden[number] else number)
            for leaf in row:
                by_leaf.setdefault(leaf, []).append(place)
    classes: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for leaf, places in by_leaf.items():
        classes.setdefault(tuple(places), []).append(leaf)
    alike = {min(class_): tuple(sorted(class_)) for class_ in classes.values() if len(class_) > 2}
    gone = {leaf for several in alike.values() for leaf in several[2:]}
    return [[row - gone if row & gone else row for row in several] for several in rows], alike


@dataclass
class ConeModel:
    """The linear constraints of a component (a cone in its unknowns), with each number's place."""

    component: Component
    leaf_place: Mapping[str, int]
    unit: float
    # For each row of G, the table and its row, or REPORTS, EVERYBODY or NOBODY
    owner: list[tuple[int, int]] = field(default_factory=list)
    slack: list[float] = field(default_factory=list)
    below: SparseRows = field(default_factory=SparseRows)
    equal: SparseRows = field(default_factory=SparseRows)
    cone: Cone = field(init=False)

    @property
    def scale(self) -> int:
        """The column of the unknown that represents the number 1."""
        return len(self.component.atoms) + len(self.component.tables)

    @property
    def width(self) -> int:
        """The number of unknowns of the linear program."""
        return self.scale + 1 + len(self.component.atoms) * len(self.leaf_place)

    def reports_of(self, table: int) -> int:
        """Return the column of the number of reports of a table."""
        return len(self.component.atoms) + table

    def persons(self, atoms: Iterable[int], leaves: Iterable[str]) -> list[int]:
        """Return the columns of the unknown numbers of people with these values in these atoms."""
        width, start = len(self.leaf_place), self.scale + 1
        places = [self.leaf_place[leaf] for leaf in leaves]
        return [start + atom * width + place for atom in atoms for place in places]

    def bound(
        self,
        owner: tuple[int, int],
        columns: Sequence[int],
        base: int,
        ends: tuple[float, float],
        slack: float,
    ) -> None:
        """Add the constraint low * base <= sum of the columns <= high * base.

        `slack` is the allowed violation of each bound, in reports."""
        ones = [1.0] * len(columns)
        self.below.add([*columns, base], [*ones, -ends[1]])
        self.below.add([*columns, base], [*(-x for x in ones), ends[0]])
        self.slack += [slack, slack]
        self.owner += [owner, owner]

    def suppress(self, table: int, row: int) -> list[int]:
        """Drop the constraints from a number that is now suppressed; return their rows of G."""
        rows = [index for index, owner in enumerate(self.owner) if owner == (table, row)]
        self.cone.hold(rows, active=False)
        return rows

    def withhold(self, table: int) -> None:
        """Drop all constraints from a table that is now withheld."""
        rows = [i for i, (owner, row) in enumerate(self.owner) if owner == table and row != NOBODY]
        self.cone.hold(rows, active=False)


def model_of(component: Component, leaves: Sequence[str]) -> ConeModel:
    """Build the linear constraints on reports, and on the people with certain values.

    `leaves` are whole groups of `leaf_groups`, or none."""
    place = {leaf: index for index, leaf in enumerate(leaves)}
    sizes = [part.reports[1] for part in component.tables if part.reports is not None]
    model = ConeModel(component, place, max(sizes, default=1.0) or 1.0)
    for table in range(len(component.tables)):
        _add_table(model, table)
    if leaves:
        _add_exclusion(model)
    zero = np.zeros(model.width, dtype=bool)
    zero[: len(component.empty)] = component.empty
    below, equal = model.below.matrix(model.width), model.equal.matrix(model.width)
    model.cone = Cone(below, equal, zero, model.scale, model.unit, np.array(model.slack))
    return model


def _add_exclusion(model: ConeModel) -> None:
    """Require that an atom has no more people over all values than reports (one value per report).

    Unbiased estimates of a list may sum to more, so the constraint can be relaxed. Complete tables
    already imply it."""
    component, leaves = model.component, list(model.leaf_place)
    open_tables = [
        (i, table) for i, table in enumerate(component.tables) if table.reports is not None
    ]
    slack = max(
        (max(facts.step * (facts.reports or (0.0,))[0], 1.0) for _, facts in open_tables),
        default=1.0,
    )
    whole = {
        atom
        for index, facts in open_tables
        if facts.complete and model.leaf_place.keys() <= frozenset().union(*component.rows[index])
        for atom in component.atoms_of(index)
    }
    for atom in set(range(len(component.atoms))) - whole:
        columns = model.persons([atom], leaves)
        model.below.add([*columns, atom], [*[1.0] * len(columns), -1.0])
        model.slack.append(slack)
        model.owner.append((0, NOBODY))


def _add_table(model: ConeModel, index: int) -> None:
    """Add the constraints of a table: its atoms, reports, shares, and completeness.

    A published share s, rounded, bounds the people x of its table by s_low n <= x <= s_high n,
    which is linear in x and in the reports n."""
    table, rows = model.component.tables[index], model.component.rows[index]
    atoms, total = model.component.atoms_of(index), model.reports_of(index)
    model.equal.add([*atoms, total], [*[1.0] * len(atoms), -1.0])
    if table.reports is None:
        return
    low, high = table.reports
    ends = low / model.unit, high / model.unit
    model.bound((index, REPORTS), [total], model.scale, ends, max(high - low, 1.0))
    slack = max(table.step * low, 1.0)
    for row in np.flatnonzero(~table.hidden).tolist():
        if rows[row] and model.leaf_place.keys() >= rows[row]:
            ends = float(table.low[row]), float(table.high[row])
            model.bound((index, row), model.persons(atoms, rows[row]), total, ends, slack)
    every: frozenset[str] = frozenset().union(*rows)
    if table.complete and every and model.leaf_place.keys() >= every:
        for atom in atoms:
            columns = model.persons([atom], sorted(every))
            model.bound((index, EVERYBODY), columns, atom, (1.0, 1.0), slack)
