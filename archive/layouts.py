"""The layout of reports in the rows of a part, and the counts that are made of them.

Of a metric a row has its bits. Of an association it has the bits of both linked reports, those of
each from a byte of its own on; counted are the bits of the first, those of the second, and every
pair of both, as the collector counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from archive.bit_sums import Bytes, Counts, sum_bits
from rappor_core.metrics.association import Association
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

_EXACT_ROWS = 1 << 20  # multiplied at once: single floats hold whole numbers up to 2**24
_MOST_CELLS = 1 << 24  # of unpacked bits, for memory


@dataclass(frozen=True, slots=True)
class LinkedLayout:
    """The layout of linked reports. shape: bits of each metric, k1 and k2."""

    num_cohorts: int
    shape: tuple[int, int]

    @property
    def num_bits(self) -> int:
        """Number of counters of a cohort."""
        first, second = self.shape
        return first + second + first * second

    @property
    def report_bytes(self) -> int:
        """Number of bytes of a row."""
        return sum((bits + 7) // 8 for bits in self.shape)

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain values, for an entry."""
        return {"num_cohorts": self.num_cohorts, "linked": list(self.shape)}


Layout = RapporParams | LinkedLayout


def layout_of(fields: Mapping[str, Any]) -> Layout:
    """The inverse of `to_dict`. Raises ParameterError."""
    if "linked" in fields:
        first, second = fields["linked"]
        return LinkedLayout(int(fields["num_cohorts"]), (int(first), int(second)))
    return RapporParams.from_dict(fields)


def shape_of(fields: Mapping[str, Any]) -> tuple[int, int]:
    """The shape (m, k) of the counters, from the plain values of `to_dict`."""
    if "linked" in fields:
        layout = layout_of(fields)
        return layout.num_cohorts, layout.num_bits
    return int(fields["num_cohorts"]), int(fields["num_bits"])


def linked_bits(fields: Mapping[str, Any]) -> tuple[int, int] | None:
    """The bits of each of two linked reports; None of a metric."""
    layout = layout_of(fields) if "linked" in fields else None
    return layout.shape if isinstance(layout, LinkedLayout) else None


def declared(metric: Metric | Association) -> tuple[dict[str, Any], Layout]:
    """The declaration that an entry keeps, and the layout of its reports."""
    if isinstance(metric, Metric):
        return metric.to_dict(), metric.params
    definition = {
        "association": metric.to_dict(),
        "metrics": [one.to_dict() for one in metric.metrics],
    }
    return definition, LinkedLayout(metric.num_cohorts, metric.shape)


def sum_rows(rows: Bytes, num_bits: int, linked: tuple[int, int] | None) -> Counts:
    """Count the set bits over the rows of a cohort.

    linked: None for one metric, whose counts are (num_bits,); (k1, k2) for linked reports: k1 + k2
    counts of bits, then k1 * k2 of pairs of them, and num_bits is not used.
    """
    return sum_bits(rows, num_bits) if linked is None else _sum_linked(rows, linked)


def _sum_linked(rows: Bytes, shape: tuple[int, int]) -> Counts:
    """Counts of both sides' bits and of pairs; pairs are a product of two matrices of 0 and 1."""
    cut = (shape[0] + 7) // 8
    step = max(1, min(_EXACT_ROWS, _MOST_CELLS // sum(shape)))
    pairs = np.zeros(shape, dtype=np.int64)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        first, second = (
            np.unpackbits(side, axis=1, count=bits, bitorder="little").astype(np.float32)
            for side, bits in zip((some[:, :cut], some[:, cut:]), shape, strict=True)
        )
        pairs += (first.T @ second).astype(np.int64)
    sides = [
        sum_bits(np.ascontiguousarray(side), bits)
        for side, bits in zip((rows[:, :cut], rows[:, cut:]), shape, strict=True)
    ]
    return np.concatenate([*sides, pairs.ravel()])
