"""Trees over decoded values: cells by prefix, hosts by domain, strings by first letters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from disclosure.anonymize import Hierarchy
from disclosure.errors import TableError
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
