"""A prior of the analyst: how the level of a rule is divided among candidates, before the data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from decoder.errors import CandidatesError
from decoder.files import naming
from decoder.tables.reading import read_rows
from decoder.typing import Floats, Indices
from rappor_core.errors import shown
from rappor_core.hashing import normalise

MOST = 1e9  # of a weight, and of 1 over it


@dataclass(frozen=True)
class Weights:
    """Weights of candidates: any positive numbers, of which only the ratios count.

    of: value (normalised) -> weight.  others: that of every value which is not in `of`; None if
    there must be no such value.

    Raises CandidatesError with the bad weight.
    """

    of: Mapping[str, float]
    others: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no weight. One of 0 would be a candidate that can never be found."""
        for value, weight in self.of.items():
            _check(f"the weight of {shown(value)}", weight)
        if self.others is not None:
            _check("the weight of the others", self.others)

    def among(self, values: Sequence[bytes], group: Indices) -> Floats:
        """Weights of the groups of candidates that set the same bits, (G,), of mean 1.

        values: all candidates, (M,).  group: the first candidate of each one's group, (M,). The
        heaviest of a group counts. Raises CandidatesError for a value without a weight.
        """
        largest = np.zeros(len(values))
        np.maximum.at(largest, group, np.array([self._weight(value) for value in values]))
        kept = largest[group == np.arange(len(group))]
        return np.asarray(kept / kept.mean())

    def _weight(self, value: bytes) -> float:
        weight = self.of.get(value.decode(), self.others)
        if weight is None:
            raise CandidatesError(
                f"candidate {shown(value.decode())} has no weight; give every candidate one, or "
                "those that are not listed one together (a line without a value: `,1`)"
            )
        return weight

    def to_csv(self) -> str:
        """The weights as canonical CSV text: `value,weight` a line, sorted, the weight of all
        others last.

        `read_weights` reads it.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows((value, repr(weight)) for value, weight in sorted(self.of.items()))
        if self.others is not None:
            writer.writerow(("", repr(self.others)))
        return text.getvalue()

    @property
    def digest(self) -> str:
        """SHA-256 of `to_csv` in UTF-8."""
        return sha256(self.to_csv().encode()).hexdigest()


def read_weights(path: Path) -> Weights:
    """Read a CSV of `value,weight`, with or without that header.

    The line without a value is for all others. Raises CandidatesError.
    """
    weights: dict[str, float] = {}
    with naming(path, CandidatesError, "give a UTF-8 CSV of value,weight"):
        for row in read_rows(path):
            if len(row.cells) != 2:
                raise CandidatesError(f"line {row.line} is not a value and its weight")
            if not weights and list(row.cells.values()) == ["value", "weight"]:
                continue
            value = normalise(row.text(1)).decode()
            if value in weights:
                raise row.refused(1, f"{shown(value)} is repeated")
            weights[value] = row.number(2)
        if not weights:
            raise CandidatesError("there is no weight in it")
        others = weights.pop("", None)
        return Weights(weights, others)


def _check(what: str, weight: float) -> None:
    if not (math.isfinite(weight) and 1 / MOST <= weight <= MOST):
        raise CandidatesError(f"{what} is {weight!r}, not from {1 / MOST:g} to {MOST:g}")
