"""The expected shares of values: Zipf's law, a list of shares, or the result of a decoding."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from decoder.errors import MissingColumnError, PlanError
from decoder.files import naming
from decoder.tables.reading import read_rows, read_table
from decoder.typing import Floats

MAX_VALUES = 100_000  # Per population; later values are too rare to be detected


@dataclass(frozen=True)
class ExpectedShares:
    """The expected shares of values."""

    shares: Callable[[int], Floats]  # Returns the shares for a number of candidates, largest first
    words: str  # A description of the shares

    def __call__(self, candidates: int) -> Floats:
        """Return shares, largest first, (candidates,) or fewer."""
        return self.shares(candidates)


def zipf_population(exponent: float) -> ExpectedShares:
    """Return the shares of Zipf's law. Raises PlanError if not in 0 to 10."""
    _check_exponent(exponent)
    return ExpectedShares(
        lambda candidates: zipf_shares(exponent, candidates),
        f"Zipf's law of exponent {exponent:g}",
    )


def given_population(shares: Floats, words: str = "the shares given") -> ExpectedShares:
    """Return a population with these shares, whatever the number of candidates."""
    return ExpectedShares(lambda candidates: np.asarray(shares[:candidates]), words)


@lru_cache(maxsize=32)  # A plan needs the same shares repeatedly
def zipf_shares(exponent: float, num_values: int) -> Floats:
    """Return shares proportional to 1 / rank ** exponent, largest first.

    The shape is (num_values,), or (MAX_VALUES,) if that is shorter."""
    _check_exponent(exponent)
    ranks = np.arange(1, min(num_values, MAX_VALUES) + 1, dtype=float)
    weights = ranks**-exponent
    total = float(weights.sum())
    if num_values > MAX_VALUES:  # The remaining values, by an integral
        ends = np.linspace(np.log(MAX_VALUES), np.log(num_values), 10_000)
        total += float(np.trapezoid(np.exp(ends * (1 - exponent)), ends))
    shares = np.asarray(weights / total)
    shares.flags.writeable = False
    return shares


def _check_exponent(exponent: object) -> None:
    is_number = isinstance(exponent, int | float) and not isinstance(exponent, bool)
    if not is_number or not 0 <= exponent <= 10:  # type: ignore[operator]
        raise PlanError(f"zipf = {exponent!r} is not an exponent from 0 to 10; 1 is usual")


def read_shares(path: Path) -> Floats:
    """Read shares, largest first, from a decoding's results.csv or results.json, or a list.

    A CSV file has a column `share` or `proportion`; a text file has one number per line. Shares are
    fractions of 1.

    Raises:
        PlanError: The file is invalid. The error names the file, the row and the value.
    """
    with naming(path, PlanError, "name a column share, or give one share per line"):
        shares = _from_json(path) if path.suffix == ".json" else _from_table(path)
    total = sum(shares)
    if not shares or total <= 0:
        raise PlanError(f"{path}: contains no share above 0")
    if total > 1.05:
        raise PlanError(f"{path}: the shares add up to {total:.3g}, which is more than 1")
    return np.sort(np.array(shares))[::-1] / max(total, 1.0)


def _from_json(path: Path) -> list[float]:
    document = json.loads(path.read_bytes())
    try:
        rows = document["detected"] if isinstance(document, dict) else document
        shares = [row["share"] if isinstance(row, dict) else row for row in rows]
    except (KeyError, TypeError) as error:
        raise PlanError(
            f"it is neither results.json of `rappor decode` nor a list of shares ({error})"
        ) from error
    for number, share in enumerate(shares, start=1):
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise PlanError(f"entry {number}: {share!r} is not a share from 0 to 1")
    return shares


def _from_table(path: Path) -> list[float]:
    """Read shares under a header `share` or `proportion`, or one number per line."""
    for name in ("share", "proportion"):
        try:
            return [row.number(name, 0, 1) for row in read_table(path, [name])]
        except MissingColumnError as error:
            missing = error
    rows = list(read_rows(path))
    if rows and len(rows[0].cells) > 1:
        raise PlanError(f"no column 'share', and {missing!s}")
    return [row.number(1, 0, 1) for row in rows]
