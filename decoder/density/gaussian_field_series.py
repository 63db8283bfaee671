"""Fields of many windows of one slot: the same cells, designs and prior, other counts.

They are fitted side by side, as columns: the designs, the prior and the metric of the descent are
prepared once, and products with vectors become products with matrices. Each column ends where
`fit_field` ends from the same start, up to what a step may gain there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import diags_array

from decoder.density.evidence import factor
from decoder.density.field_misfit import Misfit, own_reserved, with_reserved
from decoder.density.field_posterior import check_finite, negative_log_posterior, softmax
from decoder.density.field_prior import Belief, Prior
from decoder.density.linear_system import Reading, WindowReadings
from decoder.numerics.lbfgs import column_products, descend_columns
from decoder.typing import Floats

_SETTLED = 1e-5  # nats that a further step would gain a window
_STEPS = 500
_MOST_NUMBERS = 400_000  # cells times windows fitted at once: some 100 MB of former steps


def fit_windows(
    windows: WindowReadings,
    laplacian: Any | None,
    belief: Belief,
    near: Floats,
    *,
    reserved: int = 0,
) -> list[Floats]:
    """Shares (n,) of each window, positive, sum 1, from `near` (n,), positive.

    windows: the readings of each, one for each level.  reserved: how many of the last shares are
    of reserved values: each window starts from its own estimates of them, and has a free parameter
    for each.
    Raises ConvergenceError where a window has no finite fit.
    """
    prior = Prior.of(belief.graph, laplacian, len(near), reserved)
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, readings in enumerate(windows):  # cohorts without reports are not in a design
        alike[tuple(id(one.design) for one in readings)].append(index)
    shares: dict[int, Floats] = {}
    most = max(1, _MOST_NUMBERS // len(near))
    for members in alike.values():
        for first in range(0, len(members), most):
            some = members[first : first + most]
            found = _fit([windows[i] for i in some], prior, belief.strength, near)
            shares |= zip(some, found, strict=True)
    return [shares[index] for index in range(len(windows))]


def _fit(windows: WindowReadings, prior: Prior, strength: float, near: Floats) -> Sequence[Floats]:
    """Twice: with rows weighted as if all cells held alike, then as the first fit says."""
    starts = np.stack([_start(readings, prior, near) for readings in windows], axis=1)
    log_shares, held = np.log(starts), np.full_like(starts, 1 / len(near))
    if prior.reserved:
        own = starts[-prior.reserved :].T
        held = np.stack([with_reserved(h, o) for h, o in zip(held.T, own, strict=True)], axis=1)
    for _ in range(2):
        question = _Question(windows, held)
        metric = question.metric(prior.precision(strength), near)
        log_shares = _maximum(question, prior, strength, metric, log_shares)
        held = softmax(log_shares)
    return list(held.T)


def _start(readings: Sequence[Reading], prior: Prior, near: Floats) -> Floats:
    """`near`, with the shares of reserved values that the window itself says."""
    return own_reserved(Misfit(readings, near), near, prior.reserved)


class _Question:
    """The readings of windows with common designs; rows weighted as if cells held `held` (n, W)."""

    def __init__(self, windows: WindowReadings, held: Floats) -> None:
        self._rows = [
            (
                level[0].design,
                level[0].design.T.tocsr(),
                np.stack([one.target for one in level], axis=1),
                np.stack([o.precision(h) for o, h in zip(level, held.T, strict=True)], axis=1),
            )
            for level in zip(*windows, strict=True)
        ]

    def misfit(self, shares: Floats) -> tuple[Floats, Floats]:
        """Half the weighted squares of the residuals (W,), and their slopes (n, W)."""
        value, slope = np.zeros(shares.shape[1]), np.zeros_like(shares)
        for design, transposed, target, weight in self._rows:
            residual = design @ shares - target
            weighted = weight * residual
            value += 0.5 * column_products(residual, weighted)
            slope += transposed @ weighted
        return value, slope

    def metric(self, prior: Any, near: Floats) -> Callable[[Floats], Floats]:
        """The inverse of a curvature near all maxima: of the mean window, where it holds `near`."""
        own = sum(transposed @ weight.mean(axis=1) for _, transposed, _, weight in self._rows)
        inverse: Callable[[Floats], Floats] = factor(prior + diags_array(near**2 * own)).solve
        return inverse


def _maximum(
    question: _Question,
    prior: Prior,
    strength: float,
    metric: Callable[[Floats], Floats],
    start: Floats,
) -> Floats:
    """Log shares (n, W) of the largest posteriors, from `start`."""
    precision = prior.precision(strength)
    objective = negative_log_posterior(question.misfit, prior, precision, column_products)
    found, losses, _ = descend_columns(objective, start, metric, _SETTLED, _STEPS)
    check_finite(losses)
    return found
