"""Small tables that an analyst may give: known true shares, reports by device."""

from __future__ import annotations

import csv
from pathlib import Path

from decoder.candidate_files import read_values
from decoder.errors import CountsError
from rappor_core.hashing import normalise


def read_shares(path: Path) -> dict[str, float]:
    """A CSV of `value,share`, with or without a header: value -> share in [0, 1]."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if rows and len(rows[0]) == 2 and not _is_number(rows[0][1]):
        rows = rows[1:]
    shares: dict[str, float] = {}
    for row in rows:
        if len(row) != 2 or not _is_number(row[1]) or not 0 <= float(row[1]) <= 1:
            raise CountsError(f"{path.name}: {row!r} is not a value and its share in [0, 1]")
        shares[normalise(row[0]).decode()] = float(row[1])
    return shares


def read_repetition(path: Path) -> float:
    """A file with the number of reports of each device, one a line: sum r^2 / sum r."""
    total = squares = 0
    for text in read_values(path):
        word = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        if not word.strip():
            continue
        if not word.strip().isdecimal():
            raise CountsError(f"{path.name}: {word!r} is not a number of reports")
        total += int(word)
        squares += int(word) ** 2
    if not total:
        raise CountsError(f"{path.name} holds no reports")
    return squares / total


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
