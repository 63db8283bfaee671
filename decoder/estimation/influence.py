"""How much each estimated share changes with each debiased bit share, while the rest of the fit
stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from decoder.estimation.least_squares import Solution, centred_columns
from decoder.model.noise import CohortNoise, RandomString
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats, Indices

Directions: TypeAlias = Callable[[Indices], Floats]  # of candidates (B,): (n, B)

_NOBODY = np.empty(0, dtype=np.intp)


def fitted_directions(
    positions: Positions,
    random: RandomString,
    solution: Solution,
    members: Indices = _NOBODY,
    left: Floats | None = None,
) -> Directions:
    """The direction V^-1 z_i / (z_i'V^-1 z_i) in which an estimate reads the data.

    members, left: candidates without a belief, ascending, and V_-i^-1 z_i of theirs, (n, A).
    """

    def directions(candidates: Indices) -> Floats:
        columns = centred_columns(positions[candidates], random)
        weighed = np.asarray(solution.weigh(columns))
        own = np.flatnonzero(np.isin(candidates, members))
        if left is not None and len(own):
            weighed[:, own] = left[:, np.searchsorted(members, candidates[own])]
        information = (columns * weighed).sum(axis=0)
        return np.asarray(weighed / np.where(information == 0, np.inf, information))

    return directions


def own_directions(noise: CohortNoise, bits: NDArray[np.integer[Any]], signs: Floats) -> Directions:
    """The direction in which an estimate reads its own bit: the mean over cohorts of bits (m,
    M), or of the complement where `signs` (M,) are -1."""
    weights, num_bits = noise.reports / noise.reports.sum(), noise.random.num_bits

    def directions(candidates: Indices) -> Floats:
        found = np.zeros((len(weights), num_bits, len(candidates)))
        cohorts, numbers = np.arange(len(weights))[:, None], np.arange(len(candidates))
        found[cohorts, bits[:, candidates], numbers] = weights[:, None] * signs[candidates]
        return found.reshape(-1, len(candidates))

    return directions
