"""Partitions of a noisy histogram into blocks of cells that are counted together, by a kd-tree.

The tree sees a histogram with noise and nothing else of the table, so that whatever it does costs
nothing further.

Each split cuts one axis in two. The values of the axis are first put in the order of their counts,
relative to what is expected of them, as regression trees do with categories: of all ways to cut in
two by one axis, the best is then one of the cuts in that order (Fisher 1958). The tree grows as
long as a split could pay, and is pruned from its leaves: a split stays if it and those below it
take more from the squared error than their price.
"""

import math
from dataclasses import dataclass

import numpy as np

from disclosure.series import geometric_variance
from disclosure.typing import Floats, Integers

_Axes = tuple[Integers, ...]  # the values of each axis that a block holds
_DEEPEST = 200  # cuts one below the other


@dataclass(frozen=True)
class KdTree:
    """Groups the cells of a histogram that are counted together, by a kd-tree.

    penalty: what a split must take from the squared error, in variances of the noise and for each
    doubling of the number of cells. Larger ones give fewer blocks.
    """

    penalty: float = 0.75

    def partition(self, noisy: Floats, expected: Floats, epsilon: float) -> Integers:
        """Number the block of each cell.

        Args:
            noisy: counts with geometric noise of this epsilon; some are negative. Any shape, an
                axis a column.
            expected: what the block of all cells would give each cell, above 0, of the same shape:
                cells of a block are in proportion to it.
            epsilon: of the noise, which reveals its variance.

        Returns:
            Numbers of blocks, from 0 and without gaps, of the shape of `noisy`.
        """
        variance = geometric_variance(1, epsilon)
        price = self.penalty * variance * max(math.log2(noisy.size), 1.0)
        blocks = np.zeros(noisy.shape, dtype=np.int64)
        whole = tuple(np.arange(size) for size in noisy.shape)
        tree = _Tree(noisy.astype(float), expected, price)
        for number, leaf in enumerate(tree.leaves(whole)):
            blocks[np.ix_(*leaf)] = number
        return blocks


@dataclass(frozen=True)
class _Tree:
    noisy: Floats
    expected: Floats
    price: float

    def leaves(self, axes: _Axes) -> list[_Axes]:
        """The blocks below a node, pruned."""
        return self._grow(axes, 0)[0]

    def _grow(self, axes: _Axes, depth: int) -> tuple[list[_Axes], float]:
        """Blocks of a node, and what they take from its squared error, less what they cost."""
        place = np.ix_(*axes)
        counts, weights = self.noisy[place], self.expected[place]
        if depth == _DEEPEST or counts.size == 1 or not self._can_pay(counts, weights):
            return [axes], 0.0
        gain, axis, order, cut = _best_split(counts, weights)
        halves = []
        for part in (order[:cut], order[cut:]):
            chosen = list(axes)
            chosen[axis] = np.sort(axes[axis][part])
            halves.append(self._grow(tuple(chosen), depth + 1))
        (first, gain_first), (second, gain_second) = halves
        won = gain - self.price + gain_first + gain_second
        return ([*first, *second], won) if won > 0 else ([axes], 0.0)

    def _can_pay(self, counts: Floats, weights: Floats) -> bool:
        """Whether any split could pay: the squared error is an upper bound on what all take."""
        ratio = float((counts * weights).sum() / (weights**2).sum())
        error = float(((counts - ratio * weights) ** 2).sum())
        return error > self.price


def _best_split(counts: Floats, weights: Floats) -> tuple[float, int, Integers, int]:
    """The squared error that the best cut takes away; its axis, the order of values, the cut."""
    products, squares = counts * weights, weights**2
    best = (-1.0, 0, np.arange(counts.shape[0]), 1)
    for axis, size in enumerate(counts.shape):
        if size == 1:
            continue
        others = tuple(i for i in range(counts.ndim) if i != axis)
        top, bottom = products.sum(axis=others), squares.sum(axis=others)
        order = np.argsort(top / bottom, kind="stable")
        left_top, left_bottom = np.cumsum(top[order])[:-1], np.cumsum(bottom[order])[:-1]
        right_top, right_bottom = (
            np.cumsum(values[order][::-1])[::-1][1:] for values in (top, bottom)
        )
        gains = (
            left_top**2 / left_bottom + right_top**2 / right_bottom - top.sum() ** 2 / bottom.sum()
        )
        at = int(gains.argmax())
        if gains[at] > best[0]:
            best = (float(gains[at]), axis, order, at + 1)
    return best
