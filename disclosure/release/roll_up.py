"""Pool rare values along a tree until each pool differs significantly from zero.

Each value that may be shown alone is published as it is. The rest under a node is pooled: if the
sum differs significantly from 0, the pool is published under the name of the node, else it is added
to the node above. The published values are a partition: nothing is counted twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from disclosure.anonymize import Hierarchy
from disclosure.errors import TableError
from disclosure.typing import Booleans, Floats, Integers
from rappor_core.errors import shown


@dataclass(frozen=True)
class RolledUp:
    """A partition of the values.

    labels: (groups,) value or node of the tree. height: (groups,) levels above the values, 0 for a
    value by itself. of_value: (n,) group of each value, -1 where even the root was not reached.
    estimate, std_error: (groups,) of the sums.
    """

    labels: tuple[str, ...]
    height: Integers
    of_value: Integers
    estimate: Floats
    std_error: Floats

    def members(self, group: int) -> Integers:
        """Indices of the values of a group."""
        return np.flatnonzero(self.of_value == group)


def roll_up(
    values: Sequence[str],
    estimate: Floats,
    std_error: Floats,
    tree: Hierarchy,
    alone: Booleans,
    *,
    alpha: float = 0.05,
    max_correlation: float = 0.0,
) -> RolledUp:
    """Pool values along a tree until each pool differs significantly from 0.

    The pools are chosen by looking at the estimates. What is alone was picked for being large,
    so that pools are slightly too small on average, and their intervals slightly optimistic.

    Args:
        values: (n,) distinct, each a leaf of the tree.
        estimate: (n,) unbiased.
        std_error: (n,) above 0.
        tree: the levels; its root is the last pool.
        alone: (n,) values that are published by themselves, as those that a test corrected for
            multiplicity has found.
        alpha: chance that any pool of values that nobody holds is published: a pool is tested one
            way at it, corrected (Bonferroni) for the number of nodes.
        max_correlation: largest correlation of two estimates, in [0, 1], which bounds the variance
            of a sum. 0 bounds estimates that are independent, or negatively correlated; 1 holds
            always, and then no pool has a larger ratio than its best member.

    Returns:
        The groups: values by themselves first, then pools from the leaves up.

    Raises:
        TableError: shapes that do not fit, numbers that are not finite, a value that is no leaf.
    """
    _check(len(values), estimate, std_error, alone, max_correlation)
    codes, labels = _codes(values, tree)
    least = _ratio(codes, alpha)
    of_value = np.full(len(values), -1, dtype=np.int64)
    found: list[tuple[str, int, float, float]] = []
    for level in range(codes.shape[1]):
        open_ = np.flatnonzero(of_value < 0)
        nodes, inverse = np.unique(codes[open_, level], return_inverse=True)
        sums = np.bincount(inverse, estimate[open_], len(nodes))
        errors = _errors(std_error[open_], inverse, len(nodes), max_correlation)
        large = (sums >= least * errors) & ~_repeated(codes, labels, level)[nodes]
        if level == 0:
            large = alone[open_]
        numbers = np.full(len(nodes), -1, dtype=np.int64)
        numbers[large] = len(found) + np.arange(int(large.sum()))
        for node in np.flatnonzero(large).tolist():
            found.append((labels[level][nodes[node]], level, sums[node], errors[node]))
        of_value[open_] = numbers[inverse]
    names, heights, sums_, errors_ = zip(*found, strict=True) if found else ((), (), (), ())
    return RolledUp(
        tuple(names),
        np.array(heights, dtype=np.int64),
        of_value,
        np.array(sums_, dtype=float),
        np.array(errors_, dtype=float),
    )


def sum_error(std_error: Floats, max_correlation: float) -> float:
    """A bound on the standard error of a sum, for estimates correlated by at most so much.

    sqrt((1 - r) sum s^2 + r (sum s)^2). Source: expansion of the variance of a sum.
    """
    squares, linear = float((std_error**2).sum()), float(std_error.sum())
    return float(np.sqrt((1 - max_correlation) * squares + max_correlation * linear**2))


def _check(
    count: int,
    estimate: Floats,
    std_error: Floats,
    alone: Booleans,
    max_correlation: float,
) -> None:
    shapes = {np.shape(estimate), np.shape(std_error), alone.shape}
    if shapes != {(count,)} or not 0 <= max_correlation <= 1:
        raise TableError(
            f"{count} values need as many estimates, errors and flags, not {shapes}, and a largest "
            f"correlation in [0, 1], not {max_correlation}"
        )
    if not np.isfinite(estimate).all() or not (np.isfinite(std_error) & (std_error > 0)).all():
        raise TableError("estimates must be finite, and standard errors finite and above 0")


def _codes(values: Sequence[str], tree: Hierarchy) -> tuple[Integers, list[list[str]]]:
    """(n, height + 1) node of each value at each level, and the labels of the nodes by level."""
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
    """(nodes of the level,) True where the node above is the same one: it is judged there."""
    same = np.zeros(len(labels[level]), dtype=bool)
    if 0 < level < codes.shape[1] - 1:
        below, above = codes[:, level], codes[:, level + 1]
        for a, b in {*zip(below.tolist(), above.tolist(), strict=True)}:
            same[a] = labels[level][a] == labels[level + 1][b]
    return same


def _ratio(codes: Integers, alpha: float) -> float:
    """Of a one-sided test of every node above the values."""
    if not 0 < alpha < 1:
        raise TableError(f"alpha must lie in (0, 1), not {alpha}")
    nodes = sum(len(np.unique(codes[:, level])) for level in range(1, codes.shape[1]))
    return -float(ndtri(alpha / max(nodes, 1)))


def _errors(own: Floats, group: Integers, count: int, max_correlation: float) -> Floats:
    """(count,) bound on the standard error of each group's sum, as `sum_error`."""
    squares, linear = np.bincount(group, own**2, count), np.bincount(group, own, count)
    bound: Floats = np.sqrt((1 - max_correlation) * squares + max_correlation * linear**2)
    return bound
