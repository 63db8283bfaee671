"""L-BFGS from a known metric, and the projection onto the simplex."""

from collections import deque
from collections.abc import Callable

import numpy as np

from decoder.typing import Floats

_MEMORY = 20
_ENOUGH = 1e-4  # the required fraction of the decrease that the slope predicts (Armijo)
_HALVINGS = 30


def descend(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    inverse: Callable[[Floats], Floats],
    tolerance: float,
    steps: int,
) -> tuple[Floats, float, int]:
    """Find a minimum by L-BFGS (Nocedal and Wright 2006, section 7.2) from a given metric.

    SciPy's version starts from the identity; with a good metric, a tenth of the steps is enough.

    Args:
        objective: A function that returns the value, which may be infinite, and the gradient.
        start: The initial point, (n,).
        inverse: A function that multiplies an approximate, positive definite inverse Hessian by a
            vector.
        tolerance: The search ends when the predicted decrease of a step is smaller.
        steps: The maximum number of steps.

    Returns:
        The minimum, its value, and the number of steps.
    """
    at, (value, slope) = start, objective(start)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for step_number in range(steps):
        step, amounts = -slope, []  # the two-loop recursion, over `inverse`
        for moved, turned, scale in reversed(pairs):
            amounts.append(scale * float(moved @ step))
            step -= amounts[-1] * turned
        step = inverse(step)
        for (moved, turned, scale), amount in zip(pairs, reversed(amounts), strict=True):
            step += moved * (amount - scale * float(turned @ step))
        promise = -float(slope @ step)
        if not promise > tolerance:
            return at, value, step_number
        for halved in range(_HALVINGS):
            length = 0.5**halved
            reached, reached_slope = objective(at + length * step)
            if reached <= value - _ENOUGH * length * promise:
                break
        else:
            return at, value, step_number + 1
        moved, turned = length * step, reached_slope - slope
        curvature = float(moved @ turned)
        pairs.append((moved, turned, 1 / curvature if curvature > 0 else 0.0))
        at, value, slope = at + moved, reached, reached_slope
    return at, value, steps


def project_simplex(values: Floats, total: float = 1.0) -> Floats:
    """Return the point nearest to `values` (n,) that is non-negative and sums to `total` >= 0.

    Clipping and rescaling instead would keep all positive noise (Duchi, Shalev-Shwartz, Singer,
    Chandra 2008, "Efficient projections onto the l1-ball", figure 1)."""
    if total <= 0 or not len(values):
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(values - excess[last], 0.0))
