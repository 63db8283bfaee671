"""Pool the rare values of a table along a tree, as the policy says."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError, TableError
from disclosure.release.policy import RollUp
from disclosure.release.roll_up import roll_up
from disclosure.release.tables import CellTable
from disclosure.typing import Booleans, Floats
from rappor_core.errors import shown
from rappor_core.grid.box import RESERVED

ROOT = "*"


def cell_tree(cells: Sequence[str], levels: int) -> Hierarchy:
    """Make a tree of cells in which a cell's parent is a prefix of its name (quadkey, geohash).

    Args:
        cells: names; reserved values (`other`, `no_data`), and a name too short for a parent, have
            the root alone above them.
        levels: how many parents to list, each one character shorter.

    Raises:
        TableError: no cells, or `levels` below 1.
    """

    def parent(cell: str, level: int) -> str:
        return cell[:-level] if cell not in RESERVED and len(cell) > level else ROOT

    return _tree(cells, levels, parent)


def prefix_tree(values: Sequence[str], lengths: Sequence[int]) -> Hierarchy:
    """Make a tree of strings under their first characters, as `exa*`.

    Args:
        values: strings.
        lengths: of the prefixes, the longest first; a shorter value repeats its label there.

    Raises:
        TableError: no values, or lengths that do not fall, or below 1.
    """
    if not lengths or list(lengths) != sorted(set(lengths), reverse=True) or lengths[-1] < 1:
        raise TableError(f"lengths of prefixes must fall, and be 1 or more: {list(lengths)}")
    return _tree(values, len(lengths), lambda value, level: f"{value[: lengths[level - 1]]}{ROOT}")


def domain_tree(hosts: Sequence[str], suffixes: Collection[str] = ()) -> Hierarchy:
    """Make the tree of host names: each under its registrable domain, and that under its public
    suffix.

    Args:
        hosts: names of hosts, as `www.example.org`.  Case and a last dot are ignored.
        suffixes: public suffixes of two labels or more (`co.uk`), from the list that the caller
            keeps. The last label counts as a suffix in any case.

    Raises:
        TableError: no hosts.
    """
    known = {suffix.strip(".").lower() for suffix in suffixes}

    def parent(host: str, level: int) -> str:
        labels = host.strip(".").lower().split(".")
        start = next(i for i in range(len(labels)) if _is_suffix(labels[i:], known))
        if level == 1:
            start = max(start - 1, 0)
        return f"{ROOT}.{'.'.join(labels[start:])}"

    return _tree(hosts, 2, parent)


def _is_suffix(labels: list[str], known: Collection[str]) -> bool:
    return len(labels) == 1 or ".".join(labels) in known


def _tree(values: Sequence[str], height: int, parent: Callable[[str, int], str]) -> Hierarchy:
    """A path a value: itself, its parents, the root."""
    if not len(values) or height < 1:
        raise TableError(f"a tree needs values and one level or more: {len(values)}, {height}")
    distinct = dict.fromkeys(values)
    return Hierarchy(
        tuple(
            (value, *(parent(value, level) for level in range(1, height + 1)), ROOT)
            for value in distinct
        )
    )


def join_outlines(geometries: Sequence[Any]) -> dict[str, Any]:
    """Join geometries (GeoJSON) into one MultiPolygon that covers them."""
    try:
        from shapely import get_parts, multipolygons, union_all
        from shapely.geometry import mapping, shape
    except ModuleNotFoundError:
        raise PolicyError(
            "pools of cells need the library shapely: pip install 'rappor-telemetry[geo]'"
        ) from None
    whole = multipolygons(get_parts(union_all([shape(one) for one in geometries])))
    return dict(mapping(whole.normalize()))


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
        alone,
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
