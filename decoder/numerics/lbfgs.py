"""Minimise smooth functions by L-BFGS from a known metric (Nocedal and Wright 2006, section 7.2).

SciPy's L-BFGS starts each search from the identity. Where a good guess at the inverse Hessian is
known, as for a field with a strong prior, a search that starts from it takes a tenth of the steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from decoder.typing import Floats

Pair = tuple[Floats, Floats, Floats]

_MEMORY = 20
_ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo)
_HALVINGS = 30


def descend(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    inverse: Callable[[Floats], Floats],
    tolerance: float,
    steps: int,
) -> tuple[Floats, float, int]:
    """Find a minimum near `start` (n,), the value there, and the number of steps taken.

    objective: value and gradient.  inverse: an approximate inverse Hessian, positive definite,
    times a vector.  Ends where a step promises to lower the value by less than `tolerance`, after
    `steps`, or where no step lowers it. A value that is not finite is returned as it is.
    """

    def of_column(at: Floats) -> tuple[Floats, Floats]:
        value, slope = objective(at[:, 0])
        return np.array([value]), slope[:, None]

    def of_slope(slope: Floats) -> Floats:
        return inverse(slope[:, 0])[:, None]

    found, values, taken = descend_columns(of_column, start[:, None], of_slope, tolerance, steps)
    return found[:, 0], float(values[0]), taken


def descend_columns(
    objective: Callable[[Floats], tuple[Floats, Floats]],
    start: Floats,
    inverse: Callable[[Floats], Floats],
    tolerance: float,
    steps: int,
) -> tuple[Floats, Floats, int]:
    """The same for W functions at once, each over its own column of `start` (n, W).

    objective: values (W,) and gradients (n, W) at columns.  A column that has ended stays.
    """
    at, (value, slope) = start, objective(start)
    pairs: deque[Pair] = deque(maxlen=_MEMORY)
    moving = np.ones(start.shape[1], dtype=bool)
    for taken in range(steps):
        step = -_inverse_times(slope, pairs, inverse)
        promise = -column_products(slope, step)
        moving &= promise > tolerance
        if not moving.any():
            return at, value, taken
        length, (reached, reached_slope) = _search(objective, at, value, step, moving * promise)
        moving &= length > 0
        moved, turned = length * step, reached_slope - slope
        curvature = column_products(moved, turned)
        scale = np.divide(1, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        pairs.append((moved, turned, scale))
        at, value, slope = at + moved, reached, reached_slope
    return at, value, steps


def column_products(one: Floats, other: Floats) -> Floats:
    """Inner products of the columns of two matrices (n, W): (W,)."""
    if one.shape[1] == 1:
        return np.asarray((one.T @ other)[0])
    return np.asarray(np.einsum("nw,nw->w", one, other))


def _search(
    objective: Callable[[Floats], tuple[Floats, Floats]],
    at: Floats,
    value: Floats,
    step: Floats,
    promise: Floats,
) -> tuple[Floats, tuple[Floats, Floats]]:
    """Lengths (W,) of steps that keep part of their `promise`, 0 for none; what is found there."""
    length = np.sign(promise)
    for _ in range(_HALVINGS):
        found = objective(at + length * step)
        short = (length > 0) & ~(found[0] <= value - _ENOUGH * length * promise)
        if not short.any():
            return length, found
        length = np.where(short, length / 2, length)
    length = np.where(short, 0.0, length)
    return length, objective(at + length * step)


def _inverse_times(
    slope: Floats, pairs: deque[Pair], inverse: Callable[[Floats], Floats]
) -> Floats:
    """The two-loop recursion, over `inverse`."""
    result, taken = slope.copy(), []
    for moved, turned, scale in reversed(pairs):
        amount = scale * column_products(moved, result)
        taken.append(amount)
        result -= amount * turned
    result = inverse(result)
    for (moved, turned, scale), amount in zip(pairs, reversed(taken), strict=True):
        result += moved * (amount - scale * column_products(turned, result))
    return result
