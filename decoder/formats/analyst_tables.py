"""The table of weights that an analyst may give."""

from __future__ import annotations

import csv
from pathlib import Path

from decoder.candidates.weights import Weights
from decoder.errors import CandidatesError
from decoder.files import naming
from rappor_core.errors import shown
from rappor_core.hashing import normalise


def read_weights(path: Path) -> Weights:
    """Read a CSV of `value,weight`, with or without a header; the line without a value is for
    all others.

    Raises CandidatesError.
    """
    with naming(path, CandidatesError, "give a UTF-8 CSV of value,weight"):
        return _weights(path)


def _weights(path: Path) -> Weights:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise CandidatesError("there is no line in it")
    if len(rows[0]) == 2 and not _is_number(rows[0][1]):
        rows = rows[1:]
    weights: dict[str, float] = {}
    for row in rows:
        if len(row) != 2 or not _is_number(row[1]):
            raise CandidatesError(f"{shown(row)} is not a value and its weight")
        value = normalise(row[0]).decode()
        if value in weights:
            raise CandidatesError(f"{shown(value)} stands twice")
        weights[value] = float(row[1])
    others = weights.pop("", None)
    return Weights(weights, others)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
