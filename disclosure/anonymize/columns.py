"""Columns that can be generalized (value trees, number intervals), and the cost of merging rows.

The distance from a value to a merged value is 0 if they are equal, or else the height of the merged
node divided by the height of its tree. For numbers, it is the width of the merged interval divided
by the column's range. The distance of rows is the weighted sum over columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from decoder.tables.reading import DELIMITERS, read_rows
from disclosure.errors import TableError
from disclosure.files import naming, reading
from disclosure.typing import Booleans, Floats, Integers
from rappor_core.errors import shown


@dataclass(frozen=True)
class Hierarchy:
    """A tree of values with all leaves at the same depth.

    Raises TableError if paths differ in length, there are several roots, or a label is repeated."""

    # For each leaf, the labels from it to the root, 2 or more; a missing parent repeats it
    paths: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        lengths = {len(path) for path in self.paths}
        if len(lengths) != 1 or lengths <= {0, 1}:
            raise TableError(f"paths of a hierarchy need equal lengths, 2 or more: {lengths}")
        if len({path[0] for path in self.paths}) < len(self.paths):
            raise TableError("a leaf of the hierarchy is repeated")
        if len({path[-1] for path in self.paths}) != 1:
            raise TableError(f"a hierarchy has one root, not {shown({p[-1] for p in self.paths})}")
        above: dict[str, tuple[str, ...]] = {}
        for path in self.paths:
            for level, label in enumerate(path):
                top = tuple(upper for upper in path[level:] if upper != label)
                if above.setdefault(label, top) != top:
                    raise TableError(f"the label {shown(label)} appears at two places in a tree")

    @classmethod
    def load(cls, file: Path) -> Hierarchy:
        """Read a CSV file without header, one row per leaf: the leaf, its ancestors, the root.

        The delimiter is the only character (comma, semicolon or tab) that separates two or more
        columns. Raises TableError, with the file and line, if the file is unreadable or is not a
        valid tree."""
        with naming(file), reading():
            first = {mark: next(read_rows(file, delimiter=mark), None) for mark in DELIMITERS}
            fits = [mark for mark, row in first.items() if row is not None and len(row.cells) > 1]
            if len(fits) != 1:
                raise TableError(
                    "line 1 must be a leaf, its ancestors and the root, separated only by "
                    "commas, only by semicolons or only by tabs"
                )
            lines: dict[str, int] = {}
            paths = []
            for row in read_rows(file, delimiter=fits[0]):
                leaf = row.text(1)
                if leaf in lines:
                    raise row.refused(1, f"{shown(leaf)} is already in line {lines[leaf]}")
                lines[leaf] = row.line
                paths.append(tuple(row.text(column) for column in row.cells))
            return cls(tuple(paths))

    @property
    def height(self) -> int:
        """The number of levels above the leaves."""
        return len(self.paths[0]) - 1

    @cached_property
    def labels(self) -> list[str]:
        """The labels of all nodes, leaves first, the root last."""
        by_level = [path[level] for level in range(self.height + 1) for path in self.paths]
        return list(dict.fromkeys(by_level))

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def leaves(self) -> Booleans:
        """Flags (nodes, leaves) of the leaves under each node; a leaf is under itself."""
        under = np.zeros((len(self.labels), len(self.paths)), dtype=bool)
        for leaf, path in enumerate(self.paths):
            under[[self._codes[label] for label in path], leaf] = True
        return under

    @cached_property
    def heights(self) -> Integers:
        """The height of each node, (nodes,); 0 for a leaf."""
        heights = np.zeros(len(self.labels), dtype=np.int64)
        for level in range(self.height, -1, -1):
            heights[[self._codes[path[level]] for path in self.paths]] = level
        return heights

    @cached_property
    def fusions(self) -> Integers:
        """The lowest common ancestor of every two nodes, (nodes, nodes)."""
        inside = self.leaves.astype(np.int64)
        sizes = inside.sum(axis=1)
        within = (inside @ inside.T) == sizes  # [a, b]: every leaf of b lies under a
        order = np.argsort(sizes, kind="stable")
        nearest = np.empty((len(sizes), len(sizes)), dtype=np.int64)
        for node in range(len(sizes)):
            above = within[order, node]
            common = above[:, None] & within[order]
            nearest[node] = order[np.argmax(common, axis=0)]
        return nearest

    def encode(self, values: Sequence[str]) -> Integers:
        """Return the node of each value. Raises TableError if it is not in the tree."""
        try:
            return np.array([self._codes[value] for value in values], dtype=np.int64)
        except KeyError as error:
            raise TableError(f"a hierarchy has no node {shown(error.args[0])}") from None


@dataclass(frozen=True)
class IntervalColumn:
    """A column of numbers, generalized to intervals that contain several numbers.

    `low` and `high` are the declared range. A range computed from the data would reveal something
    about the people with the extreme values."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise TableError(f"an interval needs low < high, not {self.low} and {self.high}")


@dataclass(frozen=True)
class Columns:
    """The identifying columns of a table: a tree or a range for each, and a weight (default 1)."""

    kinds: Mapping[str, Hierarchy | IntervalColumn]
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.kinds or set(self.weights) - set(self.kinds):
            raise TableError(f"weights for columns that do not exist: {shown(self.weights)}")
        if any(not 0 <= weight < np.inf for weight in self.weights.values()):
            raise TableError(f"weights must be 0 or more: {shown(dict(self.weights))}")

    def weight(self, name: str) -> float:
        """Return the weight of a column."""
        return self.weights.get(name, 1.0)

    def span(self, name: str) -> float:
        """Return the width of the range of a number column."""
        kind = self.kinds[name]
        assert isinstance(kind, IntervalColumn)  # noqa: S101  encode() put numbers alone into low
        return kind.high - kind.low


@dataclass
class Rows:
    """Generalized rows, each with the number of original rows that it represents."""

    columns: Columns
    nodes: dict[str, Integers]  # By tree column: codes, (m,)
    low: dict[str, Floats]  # By number column, (m,)
    high: dict[str, Floats]  # By number column, (m,)

    @classmethod
    def encode(cls, table: Mapping[str, Sequence[str]], columns: Columns) -> Rows:
        """Encode the rows of a table. Raises TableError if it does not fit."""
        missing = [name for name in columns.kinds if name not in table]
        lengths = {len(table[name]) for name in columns.kinds if name in table}
        if missing or len(lengths) != 1 or lengths == {0}:
            raise TableError(f"columns missing: {missing}; rows: {sorted(lengths)}")
        rows = cls(columns, {}, {}, {})
        for name, kind in columns.kinds.items():
            if isinstance(kind, Hierarchy):
                rows.nodes[name] = kind.encode(table[name])
            else:
                rows.low[name] = rows.high[name] = _numbers(name, table[name], kind)
        return rows

    def __len__(self) -> int:
        return len(self._parts[0])

    def take(self, index: Integers) -> Rows:
        """Return the rows at these indices."""
        return Rows(
            self.columns,
            {name: codes[index] for name, codes in self.nodes.items()},
            {name: values[index] for name, values in self.low.items()},
            {name: values[index] for name, values in self.high.items()},
        )

    @property
    def _parts(self) -> list[Integers | Floats]:
        return [*self.nodes.values(), *self.low.values(), *self.high.values()]

    def key(self, index: int) -> tuple[float, ...]:
        """Return a row's codes and bounds as a tuple, equal only for equal rows."""
        return tuple(part[index].item() for part in self._parts)

    def distinct(self) -> tuple[Integers, Integers]:
        """Return the first row of each class of equal rows, in order, and the class of each row."""
        numbers: dict[tuple[float, ...], int] = {}
        keys = zip(*(part.tolist() for part in self._parts), strict=True)
        of_row = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
        return np.unique(of_row, return_index=True)[1], of_row

    def fuse(self, place: int, other: int) -> None:
        """Generalize the row at `place` so that it also covers the row at `other`."""
        for name, codes in self.nodes.items():
            codes[place] = self.tree(name).fusions[codes[place], codes[other]]
        for name, low in self.low.items():
            high = self.high[name]
            low[place], high[place] = min(low[place], low[other]), max(high[place], high[other])

    def tree(self, name: str) -> Hierarchy:
        """Return the tree of a tree column."""
        kind = self.columns.kinds[name]
        assert isinstance(kind, Hierarchy)  # noqa: S101  encode() put trees alone into nodes
        return kind

    def labels(self) -> dict[str, list[str]]:
        """Return the published text of every row, by column."""
        published = {}
        for name in self.columns.kinds:
            if name in self.nodes:
                names = self.tree(name).labels
                published[name] = [names[code] for code in self.nodes[name]]
            else:
                pairs = zip(self.low[name].tolist(), self.high[name].tolist(), strict=True)
                published[name] = [_interval_text(low, high) for low, high in pairs]
        return published

    def leaf_loss(self) -> Floats:
        """Return the information loss of each row, (m,), averaged over columns.

        It is Iyengar's (leaves below - 1) / (leaves - 1), or width over range."""
        losses = []
        for name, codes in self.nodes.items():
            below = self.tree(name).leaves.sum(axis=1)
            losses.append((below[codes] - 1) / max(len(self.tree(name).paths) - 1, 1))
        for name in self.low:
            losses.append((self.high[name] - self.low[name]) / self.columns.span(name))
        mean: Floats = np.mean(losses, axis=0)
        return mean


def _numbers(name: str, values: Sequence[str], kind: IntervalColumn) -> Floats:
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError as error:
        raise TableError(f"column {shown(name)}: {error}") from None
    outside = ~((numbers >= kind.low) & (numbers <= kind.high))
    if outside.any():
        raise TableError(
            f"column {shown(name)}: {numbers[outside][0]} is outside [{kind.low}, {kind.high}]"
        )
    return numbers


def _interval_text(low: float, high: float) -> str:
    """Format an interval with the fewest digits that preserve its ends, without an exponent."""
    first, last = (np.format_float_positional(end, trim="-") for end in (low, high))
    return first if low == high else f"[{first},{last}]"
