"""Maps of cells as others would make them: drawn counts of support, with two projections."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoder.numerics.simplex import project_simplex


def drawn_support(shares: np.ndarray, users: int, held: float, others: float, rng: Any) -> Any:
    """Unbiased estimates from drawn counts of support.

    held, others: the chance that a report supports a cell, of who is in it and of who is not.
    """
    holders = rng.multinomial(users, shares)
    counts = rng.binomial(holders, held) + rng.binomial(users - holders, others)
    return (counts / users - others) / (held - others)


def projections(plain: np.ndarray) -> dict[str, Any]:
    """Shares from unbiased estimates: clipped and rescaled, and the nearest of the simplex."""
    positive = np.clip(plain, 0, None)
    clipped = positive / max(positive.sum(), 1e-12)
    return {"clip": clipped, "simplex": project_simplex(plain)}
