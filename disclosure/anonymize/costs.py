"""The cost of fusing one class of rows with every other, for the greedy algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.anonymize.columns import Columns, Hierarchy, IntervalColumn, Rows
from disclosure.typing import Floats, Integers


@dataclass(frozen=True)
class FusionCosts:
    """`n_i * d(i, parent) + n_j * d(j, parent)`, for one i and all j.

    This weighted form is in the program that comes with the text; its prose says only "distance".
    """

    columns: Columns

    @cached_property
    def _tables(self) -> dict[str, tuple[Floats, Floats]]:
        """By column of trees, [a, b]: distance of a, and of b, to the fusion of both."""
        tables = {}
        for name, kind in self.columns.kinds.items():
            if isinstance(kind, Hierarchy):
                fused, nodes = kind.fusions, np.arange(len(kind.labels))
                height = kind.heights[fused] / kind.height * self._weight(name)
                first = np.where(fused == nodes[:, None], 0.0, height)
                second = np.where(fused == nodes[None, :], 0.0, height)
                tables[name] = first, second
        return tables

    def _weight(self, name: str) -> float:
        return self.columns.weights.get(name, 1.0)

    def of(self, rows: Rows, counts: Integers, i: int) -> Floats:
        """Cost of fusing class i with each class, (m,)."""
        first, second = np.zeros(len(rows)), np.zeros(len(rows))
        for name, codes in rows.nodes.items():
            of_first, of_second = self._tables[name]
            first += of_first[codes[i]][codes]
            second += of_second[codes[i]][codes]
        for name in rows.low:
            kind, low, high = self.columns.kinds[name], rows.low[name], rows.high[name]
            assert isinstance(kind, IntervalColumn)  # noqa: S101  encode() put numbers alone into low
            own_low, own_high = rows.low[name][i], rows.high[name][i]
            fused = np.maximum(high, own_high) - np.minimum(low, own_low)
            width = fused * (self._weight(name) / (kind.high - kind.low))
            first += np.where(fused == own_high - own_low, 0.0, width)
            second += np.where(fused == high - low, 0.0, width)
        costs: Floats = counts[i] * first + counts * second
        return costs
