"""The graph of neighbouring cells of a map, for the smoothness prior."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from decoder.grid_cells import cell_outline
from rappor_core.grid.box import RESERVED
from rappor_core.grid.grid import Grid

_PER_DEGREE = 1e6  # corners nearer than a millionth of a degree, a tenth of a metre, are one


def cell_laplacian(grid: Grid, cells: Sequence[str]) -> Any:
    """The graph Laplacian (n, n), sparse, in which cells with a common edge are neighbours.

    Two cells with two common corners have a common edge, in every kind of grid. Reserved
    values, and pairs of cells, have no neighbours.
    """
    owners: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        if cell not in RESERVED:
            for latitude, longitude in cell_outline(grid, cell):
                corner = round(latitude * _PER_DEGREE), round(longitude % 360 * _PER_DEGREE)
                owners[corner].append(index)
    shared = Counter(pair for group in owners.values() for pair in combinations(group, 2))
    edges = np.array([pair for pair, corners in shared.items() if corners >= 2], dtype=np.intp)
    edges = edges.reshape(-1, 2)
    both = np.concatenate([edges, edges[:, ::-1]])
    size = len(cells)
    adjacency = sparse.coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), (size, size))
    return (sparse.diags_array(np.asarray(adjacency.sum(axis=1))) - adjacency.tocsr()).tocsr()
