"""The change of shares between two windows, fitted on the difference of their bit shares.

Its variance is read off that difference itself: a device that repeats its permanent bits in both
windows makes it smaller, one that repeats them within a window makes it larger, and neither has to
be known (docs/method.md, "Over time").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.comparison.differences import Differences, differences, independent
from decoder.errors import DecodeError
from decoder.estimation.difference import fit_differences, noise_of_shares
from decoder.estimation.estimate import by_bit, by_boolean
from decoder.estimation.least_squares import centred_columns
from decoder.estimation.refit import Refit, refit
from decoder.model.counts import Observed, observe
from decoder.model.repetition import repetition
from decoder.numerics.bit_tensor import Positions
from decoder.numerics.threads import one_thread
from decoder.options import DEFAULT_LEVEL
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate


def compare_windows(
    before: Aggregate, after: Aggregate, candidates: Candidates, repeats: float | None = None
) -> Differences:
    """Estimate the difference of the shares of all `candidates`, in their order, second window
    less first.

    Raises DecodeError for windows of different parameters.
    """
    if before.params != after.params:
        raise DecodeError(
            f"windows of {before.metric!r} have different parameters and cannot be compared; "
            "decode each, and compare the intervals"
        )
    own = in_bit_order(candidates, before)
    numbers = {value: number for number, value in enumerate(own.values)}
    followed = np.array([numbers[value] for value in candidates.values])
    tensor, direct = own.positions(before.params), own.direct(before.params)
    first, second = (
        Window(one, tensor, followed, repetition(one, repeats), direct) for one in (before, after)
    )
    with one_thread():
        return change(first, second)


@dataclass(frozen=True)
class Window:
    """The counts of one window, and the values followed: `found` indices into `tensor`.

    direct: each value has a bit of its own.
    """

    aggregate: Aggregate
    tensor: Positions
    found: Indices
    repeats: float
    direct: bool

    @property
    def present(self) -> Flags:
        """Which cohorts have reports, (m,)."""
        return np.array(self.aggregate.reports_per_cohort) > 0

    def observed(self, cohorts: Flags) -> Observed:
        """The debiased counts of `cohorts`, with the positions of the compared values."""
        followed = self.tensor if self.direct else self.tensor[self.found]
        return observe(self.aggregate, followed, self.repeats, cohorts)

    def fit(self) -> tuple[Floats, Floats, float]:
        """Shares (D,), standard errors (D,) and degrees of freedom."""
        observed = self.observed(self.present)
        if self.direct:
            shares, errors = _direct(observed)
            return shares[self.found], errors[self.found], np.inf
        fitted = _least_squares(observed)
        errors = np.sqrt(fitted.balance.excess * np.diag(fitted.covariance))
        return fitted.shares, errors, _freedom(observed)


def change(before: Window, after: Window, level: float = DEFAULT_LEVEL) -> Differences:
    """Fit the difference of the bit shares in the cohorts that both windows have, (D,)."""
    common = before.present & after.present
    first, second = before.observed(common), after.observed(common)
    if not before.direct:
        difference, errors, freedom = fit_differences(first, second)
        return differences(difference, errors, level=level, freedom=freedom)
    difference, errors = independent(_direct(first), _direct(second))
    return differences(difference[before.found], errors[before.found], level=level)


def _least_squares(observed: Observed) -> Refit:
    """Weighted least squares on the values followed; everything else is unlisted."""
    columns = _columns(observed)
    return refit(noise_of_shares(observed), observed.centred, columns, observed.noise.random)


def _columns(observed: Observed) -> Floats:
    return centred_columns(observed.positions, observed.noise.random)


def _direct(observed: Observed) -> tuple[Floats, Floats]:
    """Shares and standard errors of all values of a metric with one bit a value."""
    boolean = observed.bit_shares.shape[1] == 1
    estimate = (by_boolean if boolean else by_bit)(observed, 0.95)
    return estimate.shares, estimate.std_errors


def _freedom(observed: Observed) -> float:
    cohorts, num_bits = observed.bit_shares.shape
    return float(max(cohorts * (num_bits - 1) - len(observed.positions), 1))
