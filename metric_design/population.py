"""The expected shares of values: Zipf's law, a list of shares, or the result of a decoding."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from decoder.errors import PlanError
from decoder.typing import Floats
from rappor_core.failures import failure_reason

MOST_VALUES = 100_000  # of a population; those after hold so little that none is found


@dataclass(frozen=True)
class ExpectedShares:
    """The shares of values that are expected.

    shares: largest first, of so many candidates.  words: which these are.
    """

    shares: Callable[[int], Floats]
    words: str

    def __call__(self, candidates: int) -> Floats:
        """Shares, largest first, (candidates,) or fewer."""
        return self.shares(candidates)


def zipf_population(exponent: float) -> ExpectedShares:
    """Shares of Zipf's law over the candidates. Raises PlanError for no exponent from 0 to 10."""
    _check_exponent(exponent)
    return ExpectedShares(
        lambda candidates: zipf_shares(exponent, candidates),
        f"Zipf's law of exponent {exponent:g}",
    )


def given_population(shares: Floats, words: str = "the shares given") -> ExpectedShares:
    """A population with these shares, whatever the length of the candidate list."""
    return ExpectedShares(lambda candidates: np.asarray(shares[:candidates]), words)


@lru_cache(maxsize=32)  # a plan asks for the same again and again
def zipf_shares(exponent: float, num_values: int) -> Floats:
    """Shares proportional to 1 / rank ** exponent, the largest first, (num_values,) or fewer."""
    _check_exponent(exponent)
    ranks = np.arange(1, min(num_values, MOST_VALUES) + 1, dtype=float)
    weights = ranks**-exponent
    total = float(weights.sum())
    if num_values > MOST_VALUES:  # the rest, by the integral
        ends = np.linspace(np.log(MOST_VALUES), np.log(num_values), 10_000)
        total += float(np.trapezoid(np.exp(ends * (1 - exponent)), ends))
    shares = np.asarray(weights / total)
    shares.flags.writeable = False
    return shares


def _check_exponent(exponent: object) -> None:
    is_number = isinstance(exponent, int | float) and not isinstance(exponent, bool)
    if not is_number or not 0 <= exponent <= 10:  # type: ignore[operator]
        raise PlanError(f"zipf = {exponent!r} is not an exponent from 0 to 10; 1 is usual")


def read_shares(path: Path) -> Floats:
    """Read shares, largest first: results.csv or results.json of a decoding, or your own list.

    A CSV file has a column `share` or `proportion`; a text file a number a line; both
    in fractions of 1.

    Raises:
        PlanError: that names the file, the row and the value.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {failure_reason(error)}") from error
    found = _from_json(path, text) if path.suffix == ".json" else _from_rows(path, text)
    shares = [_share(path, number, value) for number, value in enumerate(found, 1)]
    total = sum(shares)
    if not shares or total <= 0:
        raise PlanError(f"{path}: holds no share above 0")
    if total > 1.05:
        raise PlanError(f"{path}: the shares add up to {total:.3g}, which is more than 1")
    return np.sort(np.array(shares))[::-1] / max(total, 1.0)


def _from_json(path: Path, text: str) -> list[object]:
    try:
        document = json.loads(text)
        rows = document["detected"] if isinstance(document, dict) else document
        return [row["share"] if isinstance(row, dict) else row for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise PlanError(
            f"{path}: is no results.json of `rappor decode`, and no list of shares ({error})"
        ) from error


def _from_rows(path: Path, text: str) -> list[object]:
    lines = [line for line in text.splitlines() if line.strip()]
    header = [name.strip().lower() for name in next(csv.reader(lines[:1]), [])]
    for name in ("share", "proportion"):
        if name in header:
            place = header.index(name)
            return [row[place] if len(row) > place else "" for row in csv.reader(lines[1:])]
    if any(len(row) > 1 for row in csv.reader(lines[:1])):
        raise PlanError(f"{path}: has no column share or proportion, but {header}")
    return list(lines)


def _share(path: Path, number: int, value: object) -> float:
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise PlanError(f"{path}, row {number}: {value!r} is not a share from 0 to 1")
    return share
