"""The pairs of cells that flows are between, and the classes that each question puts them in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from decoder.typing import Flags, Indices
from rappor_core.metrics.flow import DISTANCE, HOME, PAIR, QUESTIONS, WORK, ZONES, Flow

RESERVED = 2  # sides after the cells: `other`, then `no_data`


@lru_cache(maxsize=4)
def cell_metres(flow: Flow) -> Any:
    """(K, K) whole metres between the centres of cells, not writeable."""
    cells = range(len(flow.cells))
    found = np.array([[flow.metres(one, other) for other in cells] for one in cells])
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class FlowSpace:
    """All pairs of an origin and a destination, row by row: P = (K + 2)^2 of K cells.

    zones: (K,) index of each cell's zone.  bands: (K, K) distance band of each pair of cells, 0 on
    the diagonal.  num_bands: with the last one, that of `other` and `no_data`.
    """

    zones: Indices
    bands: Indices
    num_bands: int

    @classmethod
    def of(cls, flow: Flow) -> FlowSpace:
        """The space of a metric of flows."""
        bands = np.array([[flow.band_of(one) for one in row] for row in cell_metres(flow).tolist()])
        np.fill_diagonal(bands, 0)
        return cls(np.array(flow.zone_of), bands, flow.num_classes(DISTANCE))

    @property
    def num_cells(self) -> int:
        """Number of cells, K."""
        return len(self.zones)

    @property
    def num_sides(self) -> int:
        """Number of cells and reserved values that a side can be, K + 2."""
        return self.num_cells + RESERVED

    @property
    def num_pairs(self) -> int:
        """Number of pairs, P."""
        return self.num_sides**2

    @property
    def num_zones(self) -> int:
        """Number of zones, without the reserved values."""
        return int(self.zones.max()) + 1

    @cached_property
    def origin(self) -> Indices:
        """(P,) side that a pair begins at."""
        return np.repeat(np.arange(self.num_sides), self.num_sides)

    @cached_property
    def destination(self) -> Indices:
        """(P,) side that a pair ends at."""
        return np.tile(np.arange(self.num_sides), self.num_sides)

    @property
    def between_cells(self) -> Flags:
        """(P,) whether both sides are cells."""
        return np.asarray(np.maximum(self.origin, self.destination) < self.num_cells)

    @cached_property
    def same(self) -> Indices:
        """(P,) 1 where both sides are one, else 0."""
        return np.asarray(self.origin == self.destination, dtype=np.intp)

    @cached_property
    def band(self) -> Indices:
        """(P,) distance band."""
        band = np.full((self.num_sides, self.num_sides), self.num_bands - 1, dtype=np.intp)
        band[: self.num_cells, : self.num_cells] = self.bands
        return band.ravel()

    @cached_property
    def zone_pair(self) -> Indices:
        """(P,) pair of zones, row by row; `other` and `no_data` are zones of their own."""
        sides = np.concatenate([self.zones, self.num_zones + np.arange(RESERVED)])
        pairs: Indices = sides[self.origin] * (self.num_zones + RESERVED) + sides[self.destination]
        return pairs

    def classes(self, question: str) -> Indices:
        """(P,) class of each pair in one of `QUESTIONS`, as `Flow.class_of` numbers them."""
        labels: dict[str, Indices] = {
            HOME: 2 * self.origin + self.same,
            WORK: 2 * self.destination + self.same,
            DISTANCE: self.band,
            ZONES: self.zone_pair,
            PAIR: np.arange(self.num_pairs),
        }
        return labels[question]

    def num_classes(self, question: str) -> int:
        """Number of classes of a question."""
        return {
            HOME: 2 * self.num_sides,
            WORK: 2 * self.num_sides,
            DISTANCE: self.num_bands,
            ZONES: (self.num_zones + RESERVED) ** 2,
            PAIR: self.num_pairs,
        }[question]

    def sums(self, question: str) -> Any:
        """(classes, P) sparse 0/1 matrix that adds pairs up to the classes of a question."""
        return indicator(self.classes(question), self.num_classes(question))


COARSE = tuple(name for name in QUESTIONS if name != PAIR)


def indicator(labels: Indices, size: int) -> Any:
    """(size, len(labels)) sparse matrix with 1 where a row is the label of the column."""
    ones = np.ones(len(labels))
    return sparse.csr_array((ones, (labels, np.arange(len(labels)))), shape=(size, len(labels)))
