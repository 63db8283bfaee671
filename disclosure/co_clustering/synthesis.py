"""SYNTH: draw synthetic rows from a co-clustering, column by column within a cluster.

Of a cluster g, value v of a column, in group p of parts, has the weight
`(n_v / N_p) (N_gp / N_g)`; the weights of a column's values are divided by their sum. Only the
counts of the grid and of the parts are read, no row. It is no differential privacy, and a row that
is drawn may equal a real one. The thesis finds that nobody can tell drawn rows from real ones: its
classifier, a naive Bayes, cannot see that columns were drawn apart; that of
`disclosure.rows.origin_test` can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from disclosure.co_clustering.grid import GroupGrid
from disclosure.co_clustering.recoding import Intervals, Parts
from disclosure.errors import TableError
from disclosure.typing import Floats
from rappor_core.errors import shown


def value_shares(grid: GroupGrid, cluster: int) -> dict[str, Floats]:
    """For each column, the probability of each of its values in a cluster of rows."""
    counts, groups = grid.counts[cluster], grid.partition.parts
    of_group = grid.counts.sum(axis=0)
    weights = grid.recoded.part_counts / of_group[groups] * counts[groups]
    shares = {}
    for column, name in enumerate(grid.recoded.parts):
        own = weights[list(grid.recoded.parts_of(column))]
        shares[name] = own / own.sum()
    return shares


def synthesise(grid: GroupGrid, rng: np.random.Generator) -> dict[str, list[str]]:
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


def draw_numbers(
    rows: Mapping[str, Sequence[str]],
    parts: Mapping[str, Parts],
    ranges: Mapping[str, tuple[float, float]],
    rng: np.random.Generator,
) -> dict[str, list[str]]:
    """Replace each interval in drawn rows by a number drawn evenly within it.

    ranges: by column of numbers, its declared least and greatest number, which end the outer
        intervals: those of the data would tell of two persons. Where they and all cuts are whole,
        so are the numbers.

    Raises TableError for a column without intervals, and a range that its cuts leave.
    """
    drawn = {name: list(values) for name, values in rows.items()}
    for name, (low, high) in ranges.items():
        kind = parts.get(name)
        if not isinstance(kind, Intervals):
            raise TableError(f"column {shown(name)} has no intervals to draw numbers in")
        if not low <= min(kind.cuts, default=low) <= max(kind.cuts, default=low) < high:
            raise TableError(
                f"the range {low:g} to {high:g} of {shown(name)} does not hold its cuts"
            )
        whole = all(float(edge).is_integer() for edge in (low, *kind.cuts, high))
        edges = np.array([low - whole, *kind.cuts, high])
        place = {label: index for index, label in enumerate(kind.labels)}
        at = np.array([place[label] for label in rows[name]], dtype=np.int64)
        above, upto = edges[at], edges[at + 1]
        numbers = np.floor(rng.uniform(above, upto)) + 1 if whole else rng.uniform(above, upto)
        drawn[name] = [f"{number:.15g}" for number in numbers.tolist()]
    return drawn
