"""Haar wavelets with one bit a device (HaarHRR), for a distribution of numbers.

Cormode, Kulkarni, Srivastava, "Answering range queries under local differential privacy", VLDB
2019, arXiv:1812.10942: a device is in one level of a binary tree of the cells. Its Haar coefficient
there is the sign of the half of its node in which its number lies; it reports that sign times an
entry of a Hadamard row, one bit. The paper's estimate is the inverse transform.

Kinder than the paper in two things: nodes are halved as evenly as can be, so that no cell is
padding, and a lowest level that is not full gets a part of the devices only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import hadamard

from decoder.typing import Floats, Indices
from rappor_core.mechanism import TwoRoundMechanism


@dataclass(frozen=True)
class Level:
    """A level of the Haar tree.

    nodes: (cells,), in which of its nodes a cell lies.  signs: (cells,), 1 in the first half of the
    node, -1 in the second, 0 where the node is one cell.  share: of the devices.
    """

    nodes: Indices
    signs: Floats
    share: float

    @property
    def rows(self) -> Floats:
        """The Hadamard rows, one a cohort, at each node, (cohorts, nodes)."""
        size = int(self.nodes.max()) + 1
        matrix: Floats = hadamard(1 << (size - 1).bit_length()).astype(np.float64)
        return matrix[:, :size]


def tree_levels(cells: int) -> tuple[Level, ...]:
    """The levels of a Haar tree over `cells` cells, 2 or more; the root is first."""
    ends = [(0, cells)]
    found: list[tuple[Indices, Floats]] = []
    while len(ends) < cells:
        nodes, signs = np.zeros(cells, dtype=np.intp), np.zeros(cells)
        halves = []
        for node, (start, end) in enumerate(ends):
            nodes[start:end] = node
            if end - start == 1:
                halves.append((start, end))
                continue
            middle = (start + end + 1) // 2
            signs[start:middle], signs[middle:end] = 1.0, -1.0
            halves += [(start, middle), (middle, end)]
        found.append((nodes, signs))
        ends = halves
    weights = [np.abs(signs).mean() for _, signs in found]
    return tuple(
        Level(nodes, signs, float(weight / sum(weights)))
        for (nodes, signs), weight in zip(found, weights, strict=True)
    )


@dataclass(frozen=True)
class WaveletReports:
    """Counts of HaarHRR reports by cohort; each cohort has a level and one of its rows.

    symbols: (cohorts, 2), of answers -1 and +1.  cells: (cohorts, 2, cells), P(answer before the
    coin | cell): 1/2 each where the level says nothing of a cell.
    """

    levels: tuple[Level, ...]
    rounds: TwoRoundMechanism
    symbols: Floats
    cells: Floats

    @classmethod
    def draw(
        cls, shares: Floats, rounds: TwoRoundMechanism, devices: int, rng: np.random.Generator
    ) -> WaveletReports:
        """Draw one report a device. shares: (cells,), of the population. rounds: of two symbols."""
        levels = tree_levels(len(shares))
        plus = np.concatenate(
            [(1 + level.rows[:, level.nodes] * level.signs) / 2 for level in levels]
        )
        cells = np.stack([1 - plus, plus], axis=1)
        share = np.concatenate([np.full(len(lv.rows), lv.share / len(lv.rows)) for lv in levels])
        told = rounds.p_star + (rounds.q_star - rounds.p_star) * (cells @ shares)
        reports = rng.multinomial(devices, share / share.sum())
        symbols = rng.multinomial(reports, told / told.sum(axis=1, keepdims=True))
        return cls(levels, rounds, symbols.astype(np.float64), cells)
