"""Distances between the distributions of two tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from disclosure.rows.tables import Table, encode_alike, number_rows
from disclosure.typing import Floats


def hellinger(p: Floats, q: Floats) -> float:
    """Hellinger distance, sqrt(sum (sqrt p - sqrt q)^2) / sqrt 2, in [0, 1]; zeros are allowed.

    p, q: shares of the same values, each summing to 1.
    """
    return float(np.linalg.norm(np.sqrt(p) - np.sqrt(q)) / np.sqrt(2))


def kl_divergence(p: Floats, q: Floats) -> float:
    """Kullback-Leibler divergence, sum p ln(p / q), in nats; infinite where q is 0 and p is not.

    The thesis gives it "in bits" without saying log base 2: divide by ln 2 for bits.
    """
    shown = p > 0
    if (q[shown] == 0).any():
        return float("inf")
    return float((p[shown] * np.log(p[shown] / q[shown])).sum())


def column_shares(original: Table, published: Table, columns: Sequence[str]) -> list[Floats]:
    """Shares of every combination of some columns that either table shows: (combinations,) each."""
    chosen = [{name: table[name] for name in columns} for table in (original, published)]
    numbers = number_rows(*encode_alike(*chosen))
    length = max(int(part.max()) for part in numbers) + 1
    return [np.bincount(part, minlength=length) / len(part) for part in numbers]
