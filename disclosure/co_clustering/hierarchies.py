"""Value trees learned from a co-clustering, in which similar values are joined near the leaves.

The leaves of a column's tree are its parts. The merges of groups of parts are traversed from the
finest grid to one cell; whenever parts of the column are joined, their union forms a level of the
tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import with_config

from disclosure.anonymize import Columns, Hierarchy
from disclosure.co_clustering.grid import CoClustering
from disclosure.co_clustering.recoding import (
    OTHER,
    Intervals,
    Parts,
    Recoded,
    Values,
    free_label,
)
from disclosure.errors import TableError
from disclosure.files import LENIENT, naming, read_json, to_json
from disclosure.typing import Integers


@dataclass(frozen=True)
class LearntHierarchies:
    """For each column, its parts, and a tree of these parts learned from the rows.

    Parts and trees are derived from the rows, so they reveal something about the rows, without a
    privacy guarantee."""

    parts: Mapping[str, Parts]
    trees: Mapping[str, Hierarchy]

    def recode(self, table: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the columns of a table as labels of parts, the leaves of the trees.

        Raises TableError if a column is missing or a value has no part."""
        return Recoded.encode(table, self.parts).to_table()

    def columns(self, weights: Mapping[str, float] | None = None) -> Columns:
        """Return the columns in the form that `anonymize` accepts, for the recoded table."""
        return Columns(dict(self.trees), dict(weights or {}))

    def with_floor(self, table: Mapping[str, Sequence[str]], k: int) -> LearntHierarchies:
        """Copy the trees, with labels that never name a value with fewer than k rows in a table.

        Rare values are named `other values` together, and so are rare intervals unless they have k
        rows together with neighbors in the union. A leaf keeps its label, which the k-anonymizer
        publishes only for at least k rows. Raises the errors of `recode`."""
        recoded = Recoded.encode(table, self.parts)
        trees = {}
        for column, (name, kind) in enumerate(self.parts.items()):
            counts = recoded.part_counts[list(recoded.parts_of(column))]
            trees[name] = _renamed(self.trees[name], kind, counts, k)
        return LearntHierarchies(self.parts, trees)

    def save(self, file: Path) -> None:
        """Write JSON that `load` reads."""
        columns = {
            name: _Column(self.trees[name].paths, parts.cuts)
            if isinstance(parts, Intervals)
            else _Column(self.trees[name].paths, other=parts.other)
            for name, parts in self.parts.items()
        }
        text = to_json(_File(columns), indent=1, exclude_none=True)
        file.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, file: Path, names: Sequence[str] | None = None) -> LearntHierarchies:
        """Read a file from `save`, only the named columns if any are named.

        Raises TableError, with the file's name, if it is invalid or lacks a column."""
        columns = read_json(file, _File).columns
        with naming(file):
            missing = [name for name in names or () if name not in columns]
            if missing:
                raise TableError(f"no tree for {', '.join(missing)}")
            pairs = {name: _parts_and_tree(columns[name]) for name in names or columns}
        return cls(
            {name: parts for name, (parts, _) in pairs.items()},
            {name: tree for name, (_, tree) in pairs.items()},
        )


def learn_hierarchies(model: CoClustering) -> LearntHierarchies:
    """Return the tree of each column of a co-clustering."""
    groups = [model.partition.parts.copy()]  # (parts,) before and after each merge of parts
    for merge in model.merges:
        if merge.axis == 1:
            groups.append(np.where(groups[-1] == merge.taken, merge.kept, groups[-1]))
    trees = {}
    for column, (name, kind) in enumerate(model.recoded.parts.items()):
        places = list(model.recoded.parts_of(column))
        trees[name] = _tree(name, kind, [group[places] for group in groups])
    return LearntHierarchies(model.recoded.parts, trees)


def _tree(name: str, kind: Parts, groups: list[Integers]) -> Hierarchy:
    leaves = list(kind.labels)
    root = free_label(f"any {name}", leaves)
    unions: dict[tuple[int, ...], str] = {}
    labels = {*leaves, root}
    levels = [leaves]
    number = len(leaves)
    for of_part in groups:
        nodes = len(np.unique(of_part))
        if 1 < nodes < number:
            levels.append(_level(kind, of_part, unions, labels))
        number = min(number, nodes)
    return Hierarchy(tuple((*path, root) for path in zip(*levels, strict=True)))


def _level(
    kind: Parts, of_part: Integers, unions: dict[tuple[int, ...], str], used: set[str]
) -> list[str]:
    """Return the label of each part's group; add new labels to the `unions` of all levels."""
    labels = list(kind.labels)
    for group in np.unique(of_part):
        members = tuple(np.flatnonzero(of_part == group).tolist())
        if len(members) > 1 and members not in unions:
            unions[members] = free_label(kind.group_label(members), used)
            used.add(unions[members])
        for part in members:
            labels[part] = unions.get(members, labels[part])
    return labels


def _renamed(tree: Hierarchy, kind: Parts, counts: Integers, k: int) -> Hierarchy:
    """Return the tree with unions that name no part of fewer than k rows; `counts` are (parts,)."""
    if counts.min() >= k:
        return tree
    leaves, root = set(kind.labels), tree.labels[-1]
    names = {label: label for label in (*kind.labels, root)}
    used = set(names)
    for label, under in zip(tree.labels, tree.leaves, strict=True):
        if label in leaves or label == root:
            continue
        named, rest = _nameable(kind, np.flatnonzero(under).tolist(), counts, k)
        texts = [kind.group_label(named)] if named else []
        names[label] = free_label(" | ".join([*texts, *[OTHER] * rest]), used)
        used.add(names[label])
    return Hierarchy(tuple(tuple(names[label] for label in path) for path in tree.paths))


def _nameable(kind: Parts, members: list[int], counts: Integers, k: int) -> tuple[list[int], bool]:
    """Return the parts of a union that may be named, and whether others remain."""
    runs = [[part] for part in members]
    if isinstance(kind, Intervals):
        breaks = np.flatnonzero(np.diff(members) > 1) + 1
        runs = [run.tolist() for run in np.split(np.array(members), breaks)]
    named = [part for run in runs if counts[run].sum() >= k for part in run]
    return named, len(named) < len(members)


@with_config(LENIENT)
@dataclass(frozen=True)
class _Column:
    """A column in the file: numbers with cut points, or values with the label of all others."""

    paths: tuple[tuple[str, ...], ...]
    cuts: tuple[float, ...] | None = None
    other: str = ""


@with_config(LENIENT)
@dataclass(frozen=True)
class _File:
    columns: Mapping[str, _Column]
    version: Literal[1] = 1


def _parts_and_tree(column: _Column) -> tuple[Parts, Hierarchy]:
    tree = Hierarchy(column.paths)
    leaves = tuple(path[0] for path in tree.paths)
    parts: Parts
    if column.cuts is not None:
        parts = Intervals(column.cuts)
    else:
        parts = Values(leaves[:-1] if column.other else leaves, column.other)
    if parts.labels != leaves:
        raise TableError(f"the leaves of the tree are not the parts of the column: {leaves}")
    return parts, tree
