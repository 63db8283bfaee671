"""Minimize smooth functions by L-BFGS from a known metric (Nocedal and Wright 2006, section 7.2).

SciPy's L-BFGS starts each search from the identity. Where a good guess at the inverse Hessian is
known, as for a field with a strong prior, a search that starts from it takes a tenth of the steps.
"""

from collections import deque
from collections.abc import Callable

from decoder.typing import Floats

Pair = tuple[Floats, Floats, float]
Objective = Callable[[Floats], tuple[float, Floats]]

_MEMORY = 20
_ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo)
_HALVINGS = 30


def descend(
    objective: Objective,
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
    at, (value, slope) = start, objective(start)
    pairs: deque[Pair] = deque(maxlen=_MEMORY)
    for taken in range(steps):
        step, amounts = -slope, []  # the two-loop recursion, over `inverse`
        for moved, turned, scale in reversed(pairs):
            amounts.append(scale * float(moved @ step))
            step -= amounts[-1] * turned
        step = inverse(step)
        for (moved, turned, scale), amount in zip(pairs, reversed(amounts), strict=True):
            step += moved * (amount - scale * float(turned @ step))
        promise = -float(slope @ step)
        if not promise > tolerance:
            return at, value, taken
        for halved in range(_HALVINGS):
            length = 0.5**halved
            reached, reached_slope = objective(at + length * step)
            if reached <= value - _ENOUGH * length * promise:
                break
        else:
            return at, value, taken + 1
        moved, turned = length * step, reached_slope - slope
        curvature = float(moved @ turned)
        pairs.append((moved, turned, 1 / curvature if curvature > 0 else 0.0))
        at, value, slope = at + moved, reached, reached_slope
    return at, value, steps
