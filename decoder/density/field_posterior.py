"""The posterior of a Gaussian field of log shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from decoder.density.field_prior import Prior
from decoder.errors import ConvergenceError
from decoder.typing import Floats


def softmax(field: Floats) -> Floats:
    """Shares from log shares (n,): positive, sum 1."""
    weights = np.exp(field - field.max())
    return np.asarray(weights / weights.sum())


def negative_log_posterior(
    misfit: Callable[[Floats], tuple[float, Floats]], prior: Prior, precision: Any
) -> Callable[[Floats], tuple[float, Floats]]:
    """The objective of a fit, up to a constant.

    Args:
        misfit: from shares, half the weighted squares of the residuals, and their slopes.
        prior: which part of a field is free.
        precision: of the prior, (n, n).

    Returns:
        From log shares (n,): value and slopes.
    """

    def objective(field: Floats) -> tuple[float, Floats]:
        shares = softmax(field)
        value, slope = misfit(shares)
        centred = prior.centred(field)
        pull = precision @ centred
        slope = shares * (slope - float(slope @ shares)) + prior.uncentred(pull)
        return value + 0.5 * float(centred @ pull), slope

    return objective


def check_finite(loss: float) -> None:
    """Raise ConvergenceError unless a fit ended at a finite value."""
    if not np.isfinite(loss):
        raise ConvergenceError(
            "a map has no finite fit; check that the counts, the parameters and the cells "
            "belong together"
        )
