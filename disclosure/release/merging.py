"""Pool the rare values of a table along a tree, as the policy says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError
from disclosure.release.outlines import join_outlines
from disclosure.release.policy import RollUp
from disclosure.release.roll_up import roll_up
from disclosure.release.tables import CellTable
from disclosure.release.trees import cell_tree, domain_tree, prefix_tree
from disclosure.typing import Booleans, Floats
from rappor_core.errors import shown


def pool_rare(
    table: CellTable, rule: RollUp, alone: Booleans, hierarchy: Hierarchy | None = None
) -> CellTable:
    """Pool the values of a table that may not be shown alone; each pool has the name of its
    node.

    Pools that are not detected are left out, with the values in them. A pool is not one
    cell: its name (`*.example.org`, `ab*`, a shorter quadkey) means what of the node is not shown
    by itself.

    Args:
        table: its estimates are added up unbiased, where it has them.
        rule: the tree, and the level of error.
        alone: (n,) values that are shown by themselves.
        hierarchy: for a rule without a tree.

    Raises:
        PolicyError: neither a tree nor a hierarchy; a value that is named as a pool is.
        TableError: a value that is no leaf of the hierarchy; a pool that is no share.
    """
    if not len(table.cells):
        return table
    tree = _tree_of(table.cells, rule, hierarchy)
    correlation = table.max_correlation if rule.max_correlation is None else rule.max_correlation
    made = roll_up(
        table.cells,
        table.estimate if table.unbiased is None else table.unbiased,
        np.maximum(table.std_error, np.finfo(float).tiny),
        tree,
        alone=alone,
        alpha=rule.alpha,
        max_correlation=correlation,
    )
    kept = np.flatnonzero(alone).tolist()
    pools = np.flatnonzero(made.height > 0).tolist()
    names = [made.labels[group] for group in pools]
    taken = set(names) & {table.cells[i] for i in kept}
    if taken:
        raise PolicyError(f"{table.name}: {shown(taken.pop())} is a value, and a node of the tree")
    order = np.argsort(made.of_value, kind="stable")
    starts = np.searchsorted(made.of_value[order], [*pools, len(made.labels)])
    held = [order[a:b].tolist() for a, b in pairwise(starts.tolist())]
    members = {
        name: tuple(table.cells[i] for i in cells) for name, cells in zip(names, held, strict=True)
    }
    half = -float(ndtri((1 - table.level) / 2)) * made.std_error[pools]
    sums = made.estimate[pools]

    def both(own: Floats, pooled: Floats) -> Floats:
        return np.concatenate([own[kept], pooled])

    merged = replace(
        table,
        cells=[*(table.cells[i] for i in kept), *names],
        estimate=both(table.estimate, sums),
        unbiased=None,
        std_error=both(table.std_error, made.std_error[pools]),
        low=both(table.low, sums - half),
        high=both(table.high, sums + half),
        detected=np.ones(len(kept) + len(pools), dtype=bool),
        complete=table.complete and bool((made.of_value >= 0).all()),
        shapes=_shapes(table, kept, members),
        members=members,
    )
    merged.check_shares()
    return merged


def _tree_of(cells: Sequence[str], rule: RollUp, hierarchy: Hierarchy | None) -> Hierarchy:
    if hierarchy is not None:
        return hierarchy
    if rule.tree == "cells":
        return cell_tree(cells, rule.levels)
    if rule.tree == "domain":
        return domain_tree(cells, rule.suffixes)
    if rule.tree == "prefix":
        return prefix_tree(cells, rule.lengths)
    raise PolicyError("roll_up needs a tree, or a hierarchy that is given (--hierarchy FILE)")


def _shapes(
    table: CellTable, kept: list[int], members: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Outlines: of single cells as they were, of a pool that of its cells together."""
    known = table.shapes
    found = {table.cells[i]: known[table.cells[i]] for i in kept if table.cells[i] in known}
    for name, cells in members.items():
        parts = [known[cell] for cell in cells if cell in known]
        if parts:
            found[name] = join_outlines(parts)
    return found
