"""Pooling of a table's rare values along a tree, according to the policy.

Each value that may be shown alone is published as it is. The rest below a node is pooled: if the
sum differs significantly from 0, the pool is published under the node's name, else it is added to
the node above. The published values are a partition: nothing is counted twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError, TableError
from disclosure.release.policy import RollUp
from disclosure.release.tables import CellTable
from disclosure.typing import Booleans, Floats, Integers
from rappor_core.errors import shown
from rappor_core.grid.box import RESERVED

ROOT = "*"


def tree_of(values: Sequence[str], rule: RollUp) -> Hierarchy:
    """Build the tree of values that a rule names.

    `cells`: a cell's parent is a prefix of its name (quadkey, geohash); reserved values (`other`,
    `no_data`), and names too short for a parent, have only the root above them. `prefix`: strings
    are below their first characters, such as `exa*`; a shorter value repeats its label there.
    `domain`: host names are below their registrable domain, and the registrable domain is below its
    public suffix, ignoring case and a final dot; the last label always counts as a suffix.

    Args:
        values: The values, one or more, possibly repeated.
        rule: The rule, with the levels, lengths or suffixes of the tree.

    Raises:
        PolicyError: The rule names no tree, or its lengths do not decrease.
    """
    lengths = list(rule.lengths)
    if rule.tree == "prefix" and (
        not lengths or lengths != sorted(set(lengths), reverse=True) or lengths[-1] < 1
    ):
        raise PolicyError(f"prefix lengths must decrease, and be 1 or more: {lengths}")
    suffixes = {suffix.strip(".").lower() for suffix in rule.suffixes}

    def parents(value: str) -> list[str]:
        if rule.tree == "prefix":
            return [f"{value[:length]}{ROOT}" for length in lengths]
        if rule.tree == "cells":
            return [
                value[:-level] if value not in RESERVED and len(value) > level else ROOT
                for level in range(1, rule.levels + 1)
            ]
        labels = value.strip(".").lower().split(".")
        start = next(
            (i for i in range(len(labels)) if ".".join(labels[i:]) in suffixes), len(labels) - 1
        )
        return [f"{ROOT}.{'.'.join(labels[first:])}" for first in (max(start - 1, 0), start)]

    if not rule.tree:
        raise PolicyError("roll_up needs a tree, or a hierarchy (--hierarchy FILE)")
    return Hierarchy(tuple((value, *parents(value), ROOT) for value in dict.fromkeys(values)))


class Pool(NamedTuple):
    """A node of a tree with the values that it pools."""

    label: str
    members: Integers  # Indices of values, ascending
    estimate: float
    std_error: float


def roll_up(
    values: Sequence[str],
    estimate: Floats,
    std_error: Floats,
    tree: Hierarchy,
    alone: Booleans,
    *,
    alpha: float = 0.05,
    max_correlation: float = 0.0,
) -> list[Pool]:
    """Pool values along a tree until each pool differs significantly from 0.

    The pools are selected by their estimates. Values shown separately were selected for being
    large, so pools are slightly too small on average, and their intervals slightly optimistic.

    Args:
        values: The distinct values, (n,), each a leaf of the tree.
        estimate: Their unbiased estimates, (n,).
        std_error: Their standard errors, (n,), above 0.
        tree: The levels; its root is the last pool.
        alone: The values (n,) that are published separately, such as those that a test corrected
            for multiplicity has detected.
        alpha: The probability that any pool of absent values is published: pools are tested
            one-sided at this level, corrected (Bonferroni) for the number of nodes.
        max_correlation: The largest correlation of two estimates, in [0, 1], which bounds the
            variance of a sum. 0 is valid for independent or negatively correlated estimates; 1 is
            always valid, and then no pool has a larger ratio than its best member.

    Returns:
        The pools, from the leaves upward.

    Raises:
        TableError: A value is not a leaf.
    """
    codes, labels = _codes(values, tree)
    nodes = sum(len(names) for names in labels[1:])
    least = -float(ndtri(alpha / max(nodes, 1)))
    rest, pools = np.flatnonzero(~alone), list[Pool]()
    for level in range(1, codes.shape[1]):
        inner, of_node = np.unique(codes[rest, level], return_inverse=True)
        error = std_error[rest]
        sums = np.bincount(of_node, estimate[rest], len(inner))
        squares = np.bincount(of_node, error**2, len(inner))
        errors = sum_error(squares, np.bincount(of_node, error, len(inner)), max_correlation)
        large = (sums >= least * errors) & ~_repeated(codes, labels, level)[inner]
        order = np.argsort(of_node, kind="stable")
        members = np.split(rest[order], np.searchsorted(of_node[order], np.arange(1, len(inner))))
        for node in np.flatnonzero(large).tolist():
            label = labels[level][inner[node]]
            pools.append(Pool(label, members[node], float(sums[node]), float(errors[node])))
        rest = rest[~large[of_node]]
    return pools


def sum_error(squares: Any, linear: Any, max_correlation: float) -> Any:
    """Bound the standard error of a sum by sqrt((1 - r) sum s^2 + r (sum s)^2).

    Source: expansion of the variance of a sum.

    Args:
        squares: sum s^2 over the estimates, of one sum or of several.
        linear: sum s, likewise.
        max_correlation: The largest correlation r of two estimates.
    """
    return np.sqrt((1 - max_correlation) * squares + max_correlation * linear**2)


def _codes(values: Sequence[str], tree: Hierarchy) -> tuple[Integers, list[list[str]]]:
    """Return the node of each value at each level, (n, height + 1), and the labels by level."""
    paths = {path[0]: path for path in tree.paths}
    missing = [value for value in values if value not in paths]
    if missing or len(set(values)) != len(values):
        what = missing[0] if missing else "a value that appears twice"
        raise TableError(f"values must be distinct leaves of the tree: {shown(what)}")
    columns, labels = [], []
    for level in range(tree.height + 1):
        numbers: dict[str, int] = {}
        names = (paths[value][level] for value in values)
        columns.append([numbers.setdefault(name, len(numbers)) for name in names])
        labels.append(list(numbers))
    return np.array(columns, dtype=np.int64).reshape(tree.height + 1, len(values)).T, labels


def _repeated(codes: Integers, labels: list[list[str]], level: int) -> Booleans:
    """Return flags of a level's nodes that are repeated above, where they are tested."""
    same = np.zeros(len(labels[level]), dtype=bool)
    if level < codes.shape[1] - 1:
        for a, b in {*map(tuple, codes[:, level : level + 2].tolist())}:
            same[a] = labels[level][a] == labels[level + 1][b]
    return same


def join_outlines(geometries: Sequence[Any]) -> dict[str, Any]:
    """Join GeoJSON geometries into one MultiPolygon that covers them."""
    try:
        from shapely import get_parts, multipolygons, union_all
        from shapely.geometry import mapping, shape
    except ModuleNotFoundError:
        raise PolicyError(
            "pools of cells need the library shapely: pip install 'rappor-telemetry[geo]'"
        ) from None
    whole = multipolygons(get_parts(union_all([shape(geometry) for geometry in geometries])))
    return dict(mapping(whole.normalize()))


def pool_rare(
    table: CellTable, rule: RollUp, alone: Booleans, hierarchy: Hierarchy | None = None
) -> CellTable:
    """Pool the values in a table that may not be shown separately, under their nodes' names.

    Pools that are not detected are dropped with their values. The name of a pool (`*.example.org`,
    `ab*`, a shorter quadkey) means the part of the node that is not shown separately.

    Args:
        table: The table, whose unbiased estimates are summed if it has them.
        rule: The tree and the error level.
        alone: The values (n,) that are shown separately.
        hierarchy: The tree for a rule without one.

    Raises:
        PolicyError: There is neither a tree nor a hierarchy, or a value has the name of a pool.
        TableError: A value is not a leaf of the hierarchy, or a pool is not a valid share.
    """
    if not len(table.cells):
        return table
    pools = roll_up(
        table.cells,
        table.estimate if table.unbiased is None else table.unbiased,
        np.maximum(table.std_error, np.finfo(float).tiny),
        hierarchy or tree_of(table.cells, rule),
        alone,
        alpha=rule.alpha,
        max_correlation=(
            table.max_correlation if rule.max_correlation is None else rule.max_correlation
        ),
    )
    places = np.flatnonzero(alone)
    cells = [table.cells[i] for i in places.tolist()]
    members = {pool.label: tuple(table.cells[i] for i in pool.members) for pool in pools}
    twins = members.keys() & set(cells)
    if twins:
        raise PolicyError(f"{table.name}: {shown(twins.pop())} is a value and a node of the tree")
    sums, errors = (
        np.array(numbers, dtype=float)
        for numbers in ([pool.estimate for pool in pools], [pool.std_error for pool in pools])
    )
    half = -float(ndtri((1 - table.level) / 2)) * errors

    def both(single: Floats, pooled: Floats) -> Floats:
        return np.concatenate([single[places], pooled])

    merged = replace(
        table,
        cells=[*cells, *members],
        estimate=both(table.estimate, sums),
        unbiased=None,
        std_error=both(table.std_error, errors),
        low=both(table.low, sums - half),
        high=both(table.high, sums + half),
        detected=np.ones(len(cells) + len(pools), dtype=bool),
        complete=table.complete and len(cells) + sum(map(len, members.values())) == len(alone),
        shapes=_shapes(table.shapes, cells, members),
        members=members,
    )
    merged.check_shares()
    return merged


def _shapes(
    shapes: Mapping[str, Any], alone: Sequence[str], members: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Return the outlines of single cells, and the joint outline of each pool's cells."""
    joined = {cell: shapes[cell] for cell in alone if cell in shapes}
    for name, cells in members.items():
        parts = [shapes[cell] for cell in cells if cell in shapes]
        if parts:
            joined[name] = join_outlines(parts)
    return joined
