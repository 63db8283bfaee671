"""The design matrix of the candidates, explicitly.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4: X is (m*k, M), X[j*k + b, i] = 1
where candidate i sets bit b in cohort j. The fits use the index tensor (`bit_tensor`); the matrix
itself serves readers, tests and other libraries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decoder.bit_tensor import Positions


def design_matrix(positions: Positions, num_bits: int) -> sparse.csc_array:
    """X (m*k, M), 0/1, from the index tensor (M, m, h)."""
    num_candidates, num_cohorts, _ = positions.shape
    offsets = (np.arange(num_cohorts) * num_bits)[:, None]
    set_bits = positions < num_bits
    rows = (positions + offsets)[set_bits]
    columns = np.repeat(np.arange(num_candidates), set_bits.sum(axis=(1, 2)))
    shape = (num_cohorts * num_bits, num_candidates)
    return sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def same_positions(positions: Positions) -> NDArray[np.intp]:
    """For each candidate the first one that sets the same bits in every cohort, (M,).

    Such candidates cannot be told apart by any estimator. Most lists have none: then the answer
    is 0, 1, 2, ...
    """
    rows = np.sort(positions, axis=2).reshape(len(positions), -1)
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))
    _, first, group = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    return np.asarray(first[group.ravel()])
