"""SYNTH: rows that are drawn from a co-clustering, column by column within a cluster.

Of a cluster g, value v of a column, in group p of parts, has the weight
`(n_v / N_p) (N_gp / N_g)`; the weights of a column's values are divided by their sum. Only the
counts of the grid and of the parts are read, no row. It is no differential privacy, and a row that
is drawn may equal a real one. The thesis finds that nobody can tell drawn rows from real ones: its
classifier, a naive Bayes, cannot see that columns were drawn apart; that of
`publication.utility.origin_test` can.
"""

from __future__ import annotations

import numpy as np

from publication.co_clustering.grid import Grid
from publication.typing import Floats


def value_shares(grid: Grid, cluster: int) -> dict[str, Floats]:
    """By column, the probability of each of its values in a cluster of rows."""
    counts, groups = grid.counts[cluster], grid.partition.parts
    of_group = grid.counts.sum(axis=0)
    weights = grid.recoded.part_counts / of_group[groups] * counts[groups]
    shares = {}
    for column, name in enumerate(grid.recoded.parts):
        own = weights[list(grid.recoded.parts_of(column))]
        shares[name] = own / own.sum()
    return shares


def synthesise(grid: Grid, rng: np.random.Generator) -> dict[str, list[str]]:
    """Draw as many rows as the table has, from each cluster as many as it holds.

    Each column is drawn on its own. The rows are shuffled, so that their order tells no cluster.
    The thesis's "k" of a grid is the size of its smallest cluster: a number of persons who share a
    density, not a guarantee. Give a generator that is seeded by the system, and use it once.
    """
    codes = np.empty_like(grid.recoded.codes)
    filled = 0
    for cluster, size in enumerate(grid.cluster_sizes.tolist()):
        for column, shares in enumerate(value_shares(grid, cluster).values()):
            drawn = rng.choice(len(shares), size, p=shares)
            codes[filled : filled + size, column] = drawn + grid.recoded.starts[column]
        filled += size
    return grid.recoded.labels_of(rng.permutation(codes))
