"""Turn generalised rows into plain ones, for measures that compare values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from disclosure.anonymize.anonymise import Anonymised
from disclosure.anonymize.columns import Hierarchy
from disclosure.typing import Integers


def specialise(published: Anonymised, rng: np.random.Generator) -> dict[str, list[str]]:
    """Spread generalised values evenly: each published row draws a leaf under its node.

    A row of an interval draws a whole number in it where both ends are whole, else any number.
    Suppressed rows are left out. The rows keep their order.
    """
    chosen = published.of_row[published.published]
    rows, table = published.classes.take(chosen), {}
    for name in rows.columns.kinds:
        if name in rows.nodes:
            table[name] = _leaves_under(rows.nodes[name], rows.tree(name), rng)
        else:
            low, high = rows.low[name], rows.high[name]
            whole = (low == np.floor(low)) & (high == np.floor(high))
            numbers = np.where(whole, np.floor(rng.uniform(low, high + 1)), rng.uniform(low, high))
            table[name] = [f"{number:g}" for number in numbers]
    return table


def specialise_column(
    labels: Sequence[str], tree: Hierarchy, rng: np.random.Generator
) -> list[str]:
    """Replace each published label of a tree by a leaf below it, all leaves equally likely.

    Raises TableError for a label that the tree has not.
    """
    return _leaves_under(tree.encode(labels), tree, rng)


def _leaves_under(nodes: Integers, tree: Hierarchy, rng: np.random.Generator) -> list[str]:
    leaves = [np.flatnonzero(under) for under in tree.leaves]
    return [tree.paths[rng.choice(leaves[node])][0] for node in nodes]
