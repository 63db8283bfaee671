"""Add noise to a histogram, and repair counts that fall below zero.

Neighbouring tables differ by one row, there or not, so that one cell changes by 1: geometric noise
of rate epsilon gives epsilon. The thesis takes Laplace noise, whose low bits can tell the count.

It then sets negative counts to 0, which is biased where most cells are empty: of 17,280 cells and
32,561 rows at epsilon .005 a mass of 1.76 million remains. `project` takes the same amount from all
cells and clips, so that the sum stays what it was: the nearest histogram of that sum.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from disclosure.errors import TableError
from disclosure.series import add_geometric
from disclosure.typing import Floats, Integers

NonNegative = Literal["project", "clip"]


def perturb(counts: Integers, epsilon: float, rng: np.random.Generator | None = None) -> Integers:
    """Counts with noise, unbiased; some are negative. rng: as in `add_geometric`."""
    return add_geometric(counts, 1, epsilon, rng)


def without_negatives(noisy: Floats, rule: NonNegative, total: float | None = None) -> Floats:
    """Counts of 0 or more, of the same shape.

    Args:
        noisy: any shape.
        rule: `project` on the counts of sum `total`, or `clip` at 0, whatever the sum then is.
        total: of `project`; None: the sum of `noisy`, or 0 if that is negative.

    Raises:
        TableError: another rule.
    """
    if rule not in get_args(NonNegative):
        raise TableError(f"rule {rule!r} is not one of {get_args(NonNegative)}")
    if rule == "clip":
        return np.maximum(noisy, 0.0)
    whole = float(noisy.sum()) if total is None else total
    return project_to_total(noisy.ravel(), whole).reshape(noisy.shape)


def project_to_total(values: Floats, total: float) -> Floats:
    """The nearest point (n,) without negative entries, of sum `total`; zeros for 0 or below.

    The projection on the simplex (Duchi et al. 2008), which the decoder has for its shares.
    """
    if total <= 0:
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    found: Floats = np.maximum(values - excess[last], 0.0)
    return found
