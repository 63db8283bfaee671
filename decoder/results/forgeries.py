"""How many forged reports could explain each value found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.estimation.estimate import Estimate
from decoder.estimation.least_squares import centred_columns
from decoder.inference.poisoning import Gains, forgery_gains, largest_shift, smallest_forgery
from decoder.model.counts import Observed
from decoder.typing import Flags, Floats, Indices

PER_CENT = 0.01  # of all reports, whose largest effect is told
_AT_ONCE = 128  # candidates


class Forged(NamedTuple):
    """The three `forged` columns, (G,); NaN for candidates that were not found.

    whole: smallest part of all reports that, forged, accounts for the whole estimate.  low: for
    what is above the lower end of its interval.  shift: largest change of the estimate, up or
    down, that forged reports of 1 % cause.
    """

    whole: Floats
    low: Floats
    shift: Floats


def unknown(groups: int) -> Forged:
    """NaN in every column, for `groups` candidates of which none was found."""
    return Forged(*(np.full(groups, np.nan) for _ in Forged._fields))


def forged(observed: Observed, estimate: Estimate, detected: Flags, low: Floats) -> Forged:
    """The bounds of `poisoning` for the detected. low: of their intervals, (G,)."""
    columns = unknown(len(detected))
    found = np.flatnonzero(detected)
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        gains = _gains(observed, estimate, some)
        if gains is None:
            break
        shares = np.maximum(estimate.shares[some], 0.0)
        columns.whole[some] = smallest_forgery(gains, shares)
        columns.low[some] = smallest_forgery(gains, np.maximum(shares - low[some], 0.0))
        columns.shift[some] = largest_shift(gains, PER_CENT)
    return columns


def _gains(observed: Observed, estimate: Estimate, some: Indices) -> Gains | None:
    """With the reports of those who do not hold the value in the place of what is forged."""
    if estimate.directions is None:
        return None
    noise, shape = observed.noise, (*observed.bit_shares.shape, len(some))
    directions = estimate.directions(some).reshape(shape)
    if estimate.method == "direct":
        mean, seen = 0.0, observed.bit_shares
        columns = directions / (noise.reports / noise.reports.sum())[:, None, None]
    else:
        mean, seen = noise.random.mean, observed.centred
        columns = centred_columns(observed.positions[some], noise.random).reshape(shape)
    honest = seen[:, :, None] - estimate.shares[some] * columns
    return forgery_gains(directions, honest, mean, noise.bits, noise.reports, one=noise.symbols)
