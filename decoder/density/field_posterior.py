"""The posterior of a Gaussian field of log shares, for one window or for many side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from decoder.density.field_prior import Prior
from decoder.errors import ConvergenceError
from decoder.typing import Floats

Value = TypeVar("Value", float, Floats)  # of one window, or of each


def softmax(field: Floats) -> Floats:
    """Shares from log shares (n,) or (n, W): positive, sum 1 over the cells."""
    weights = np.exp(field - field.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def negative_log_posterior(
    misfit: Callable[[Floats], tuple[Value, Floats]],
    prior: Prior,
    precision: Any,
    inner: Callable[[Floats, Floats], Value],
) -> Callable[[Floats], tuple[Value, Floats]]:
    """The objective of a fit, up to a constant.

    Args:
        misfit: from shares, half the weighted squares of the residuals, and their slopes.
        prior: which part of a field is free.
        precision: of the prior, (n, n).
        inner: inner product over the cells.

    Returns:
        From log shares (n,) or (n, W): value and slopes.
    """

    def objective(field: Floats) -> tuple[Value, Floats]:
        shares = softmax(field)
        value, slope = misfit(shares)
        centred = prior.centred(field)
        pull = precision @ centred
        slope = shares * (slope - inner(slope, shares)) + prior.uncentred(pull)
        return value + 0.5 * inner(centred, pull), slope

    return objective


def check_finite(losses: float | Floats) -> None:
    """Raise ConvergenceError unless every fit ended at a finite value."""
    if not np.isfinite(losses).all():
        raise ConvergenceError(
            "a map has no finite fit; check that the counts, the parameters and the cells "
            "belong together"
        )
