"""Priors that an analyst may declare before the counts, right and wrong ones, as weights of a
list."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LIKELY = 10.0  # times the weight of the other strings
FLOOR = 0.1  # of the mean weight of what is held: so much for a string that nobody knew of
ROUGHLY = 0.5  # standard deviation of the log of a share that is known from elsewhere


class PriorName(StrEnum):
    """The priors from which a run's weights are made: none, likely values, true shares, or wrong
    ones."""

    NONE = "none"
    LIKELY = "likely"
    SHARES = "shares"
    WRONG = "wrong"


def weights_of(
    prior: PriorName, true_shares: Floats, rng: np.random.Generator
) -> NDArray[np.float64] | None:
    """The weights of the listed candidates under a prior, of mean 1, (M,).

    `likely`: strings that somebody holds weigh ten times as much as the others.  `shares`: in
    proportion to their shares, known to a factor of about 1.6, and a floor.  `wrong`: those of
    `shares`, dealt out at random among the wrong strings, and the floor for all that is held.
    None for `none`, and where there is nothing to be known.
    """
    held = true_shares > 0
    if prior is PriorName.NONE or not held.any():
        return None
    if prior is PriorName.LIKELY:
        weights = np.where(held, LIKELY, 1.0)
    else:
        known = true_shares * np.exp(ROUGHLY * rng.normal(size=len(held)))
        weights = known / known[held].mean()
        if prior is PriorName.WRONG:
            weights = _dealt(weights[held], np.flatnonzero(~held), len(held), rng)
        weights = weights + FLOOR
    return np.asarray(weights / weights.mean())


def _dealt(
    weights: Floats, wrong: NDArray[np.intp], total: int, rng: np.random.Generator
) -> Floats:
    """The weights of what is held, given to as many wrong strings as there are."""
    dealt, number = np.zeros(total), min(len(weights), len(wrong))
    dealt[rng.choice(wrong, number, replace=False)] = rng.choice(weights, number, replace=False)
    return dealt
