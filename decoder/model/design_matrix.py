"""The design matrix X of the candidates, and candidates with equal columns.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4: X is (m*k, M), X[j*k + b, i] = 1
where candidate i sets bit b in cohort j. The fits use the index tensor (`bit_tensor`) instead.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decoder.numerics.bit_tensor import Positions, gather_sums
from decoder.typing import Flags, Indices


def design_matrix(positions: Positions, num_bits: int) -> sparse.csc_array:
    """Build X (m*k, M), 0/1, from the index tensor (M, m, h)."""
    num_candidates, num_cohorts, _ = positions.shape
    offsets = (np.arange(num_cohorts, dtype=np.int32) * num_bits)[:, None]
    set_bits = positions < num_bits
    rows = (positions.astype(np.int32) + offsets)[set_bits]
    ends = np.concatenate([[0], np.cumsum(set_bits.sum(axis=(1, 2)))]).astype(np.int32)
    shape = (num_cohorts * num_bits, num_candidates)
    return sparse.csc_array((np.ones(len(rows)), rows, ends), shape=shape)


def same_positions(positions: Positions, num_bits: int) -> NDArray[np.intp]:
    """Find for each candidate the first one that sets the same bits in every cohort, (M,).

    Such candidates cannot be distinguished by any estimator. Most lists have none: then the answer
    is 0, 1, 2, ... Candidates are first compared by a sum of codes of their bits, which is exact
    in a double whatever the order of the bits; only those of equal sum are compared bit by bit.
    """
    group = np.arange(len(positions))
    largest = 2**53 // max(positions.shape[1] * positions.shape[2], 1)  # sums stay exact
    codes = np.random.default_rng(0).integers(0, largest, (positions.shape[1], num_bits))
    sums = gather_sums(positions, codes.astype(np.float64))
    ranked = np.sort(sums)
    doubtful = np.flatnonzero(np.isin(sums, ranked[1:][np.diff(ranked) == 0]))
    if len(doubtful):
        rows = np.sort(positions[doubtful], axis=2).reshape(len(doubtful), -1)
        _, first, member = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        group[doubtful] = doubtful[first[member.ravel()]]
    return group


@dataclass(frozen=True)
class Grouping:
    """Candidates that set the same bits in every cohort. group: the first such candidate, (M,)."""

    group: Indices

    @property
    def first(self) -> Flags:
        """Whether a candidate is the first of its group, (M,)."""
        return np.asarray(self.group == np.arange(len(self.group)))

    @property
    def back(self) -> Indices:
        """The index of a candidate's group among the groups, (M,)."""
        return (np.cumsum(self.first) - 1)[self.group]

    def larger_than_one(self, values: Sequence[str]) -> list[list[str]]:
        """The values of each group that has more than one."""
        named: dict[int, list[str]] = defaultdict(list)
        for i in np.flatnonzero((np.bincount(self.group) > 1)[self.group]).tolist():
            named[self.group[i]].append(values[i])
        return list(named.values())
