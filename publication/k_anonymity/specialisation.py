"""Plain rows from generalised ones, for measures that compare values."""

from __future__ import annotations

import numpy as np

from publication.k_anonymity.anonymise import Anonymised


def specialise(published: Anonymised, rng: np.random.Generator) -> dict[str, list[str]]:
    """Spread generalised values evenly: each published row draws a leaf under its node.

    A row of an interval draws a whole number in it where both ends are whole, else any number.
    Suppressed rows are left out. The rows keep their order.
    """
    chosen = published.of_row[published.published]
    rows, table = published.classes.take(chosen), {}
    for name in rows.columns.kinds:
        if name in rows.nodes:
            tree = rows.tree(name)
            leaves = [np.flatnonzero(under) for under in tree.leaves]
            drawn = [rng.choice(leaves[node]) for node in rows.nodes[name]]
            table[name] = [tree.paths[leaf][0] for leaf in drawn]
        else:
            low, high = rows.low[name], rows.high[name]
            whole = (low == np.floor(low)) & (high == np.floor(high))
            numbers = np.where(whole, np.floor(rng.uniform(low, high + 1)), rng.uniform(low, high))
            table[name] = [f"{number:g}" for number in numbers]
    return table
