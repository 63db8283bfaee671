"""The MODL cost of a grid: minus the logarithm of its posterior probability, in nats.

Two axes of categories with V1 and V2 values and N pairs; I and J groups of values; G = I J cells:

    log V1 + log V2 + log B(V1, I) + log B(V2, J) + log C(N + G - 1, G - 1)
    + sum_i log C(N_i + m_i - 1, m_i - 1) + sum_j (the same)
    + log N! - sum_ij log N_ij! + sum_i log N_i! - sum_v log n_v! + sum_j log N_j! - sum_w log n_w!

B(V, I) is the number of partitions of V values into I groups at most, m_i the number of values of
group i, N_i its pairs, n_v the pairs of a value (after Boullé, "Data grid models for preparation
and modeling in supervised learning", 2011). The thesis uses the cost and does not print it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from disclosure.typing import Floats, Integers


def log_partitions(num_values: int, most_groups: int) -> Floats:
    """Logarithms of the numbers B(num_values, i) of partitions into at most i groups, i =
    0..most_groups; log B(V, 0) is minus infinity.

    By S(n, i) = i S(n-1, i) + S(n-1, i-1), on logarithms: all terms are positive.
    Time O(num_values * most_groups).
    """
    with np.errstate(divide="ignore"):
        sizes = np.log(np.arange(most_groups + 1))
    stirling = np.full(most_groups + 1, -np.inf)
    stirling[0] = 0.0
    for _ in range(num_values):
        stirling[1:] = np.logaddexp(sizes[1:] + stirling[1:], stirling[:-1])
        stirling[0] = -np.inf
    total: Floats = np.logaddexp.accumulate(stirling)
    return total


class GridCost:
    """The cost of grids over one table of pairs.

    log_factorials: log n! of every n that two groups, or one twice, can hold.
    """

    def __init__(
        self,
        totals: tuple[Integers, Integers],
        most_groups: tuple[int, int],
    ) -> None:
        """totals: pairs of each value of both axes. most_groups: I and J at most."""
        self.num_pairs = int(totals[0].sum())
        self.num_values = (len(totals[0]), len(totals[1]))
        self.log_factorials: Floats = gammaln(
            np.arange(1, 2 * (self.num_pairs + max(self.num_values)) + 2, dtype=float)
        )
        self._partitions = tuple(map(log_partitions, self.num_values, most_groups))
        self._data = self.log_factorials[self.num_pairs] - sum(
            float(self.log_factorials[total].sum()) for total in totals
        )

    def prior(self, num_rows: int, num_columns: int) -> float:
        """The part of the cost that depends on the numbers of groups alone, in nats."""
        cells, pairs = num_rows * num_columns, self.num_pairs
        found = sum(np.log(self.num_values))
        found += self._partitions[0][num_rows] + self._partitions[1][num_columns]
        found += gammaln(pairs + cells) - gammaln(cells) - gammaln(pairs + 1)
        return float(found)

    def groups(self, sizes: Integers, totals: Integers) -> Floats:
        """The cost of the groups of an axis: log C(N_i + m_i - 1, m_i - 1) + log N_i! of groups
        of m_i values and N_i pairs."""
        found: Floats = self.log_factorials[totals + sizes - 1] - self.log_factorials[sizes - 1]
        return found

    def total(self, counts: Integers, sizes: Sequence[Integers]) -> float:
        """The cost of a grid: counts (I, J), sizes (I,) and (J,) values of each group."""
        found = self.prior(*counts.shape) + self._data - self.log_factorials[counts].sum()
        for axis in (0, 1):
            found += self.groups(sizes[axis], counts.sum(axis=1 - axis)).sum()
        return float(found)

    def joint(self, first: Integers, second: Integers) -> Floats:
        """The gain log C(a + b, a) of merging two cells with counts a and b."""
        table = self.log_factorials
        found: Floats = table[first + second] - table[first] - table[second]
        return found
