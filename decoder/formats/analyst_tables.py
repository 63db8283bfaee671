"""Small tables that an analyst may give: known true shares, weights, reports by device."""

from __future__ import annotations

import csv
from pathlib import Path

from decoder.candidates.files import read_values
from decoder.candidates.weights import Weights
from decoder.errors import CandidatesError, CountsError
from decoder.files import naming, whole_number
from rappor_core.errors import shown
from rappor_core.hashing import normalise


def read_shares(path: Path) -> dict[str, float]:
    """Read a CSV of `value,share`, with or without a header: value -> share in [0, 1]."""
    with naming(path, CountsError, "give a UTF-8 CSV of value,share"):
        return _shares(path)


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
    if rows and len(rows[0]) == 2 and not _is_number(rows[0][1]):
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


def _shares(path: Path) -> dict[str, float]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if rows and len(rows[0]) == 2 and not _is_number(rows[0][1]):
        rows = rows[1:]
    shares: dict[str, float] = {}
    for row in rows:
        if len(row) != 2 or not _is_number(row[1]) or not 0 <= float(row[1]) <= 1:
            raise CountsError(f"{shown(row)} is not a value and its share in [0, 1]")
        value = normalise(row[0]).decode()
        if value in shares:
            raise CountsError(f"{shown(value)} stands twice")
        shares[value] = float(row[1])
    return shares


def read_repetition(path: Path) -> float:
    """A file with the number of reports of each device, one a line: sum r^2 / sum r."""
    with naming(path, CountsError, "give one whole number a line"):
        return _repetition(path)


def _repetition(path: Path) -> float:
    total = squares = 0
    for text in read_values(path):
        word = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        if not word.strip():
            continue
        reports = whole_number(word, "the number of reports")
        if reports < 0:
            raise CountsError(f"{reports} is not a number of reports")
        total += reports
        squares += reports**2
    if not total:
        raise CountsError("the file holds no reports; give one whole number a line")
    return squares / total


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
