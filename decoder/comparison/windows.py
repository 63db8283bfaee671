"""The change of shares between two windows, fitted on the difference of their bit shares.

Its variance is read off that difference itself: a device that repeats its permanent bits in both
windows makes it smaller, one that repeats them within a window makes it larger, and neither has to
be known (docs/method.md, "Over time").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.comparison.differences import corrected, margin, no_change
from decoder.errors import DecodeError
from decoder.estimation.difference import fit_differences, noise_of_shares
from decoder.estimation.estimate import by_bit, by_boolean
from decoder.estimation.least_squares import centred_columns
from decoder.estimation.refit import Refit, refit
from decoder.model.counts import Observed, observe
from decoder.model.repetition import repetition
from decoder.numerics.bit_tensor import Positions
from decoder.numerics.threads import one_thread
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate


@dataclass(frozen=True)
class ShareChange:
    """The changes of the shares of all values found from one window to another, (D,).

    first, second: numbers of the windows, from 0.  difference: of the shares.  std_error: of it.
    p_value: two-sided, of no change.  p_adjusted: Benjamini-Hochberg over all values and pairs.
    freedom: of the t distribution of the differences.
    """

    first: int
    second: int
    difference: Floats
    std_error: Floats
    p_value: Floats
    p_adjusted: Floats
    freedom: float = np.inf

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Low and high ends (D,) of the intervals of the differences at a level in (0, 1)."""
        half = margin(self.std_error, level, self.freedom)
        return self.difference - half, self.difference + half


def compare_windows(
    before: Aggregate, after: Aggregate, candidates: Candidates, repeats: float | None = None
) -> ShareChange:
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
    pair = [
        Window(one, tensor, followed, repetition(one, repeats), direct) for one in (before, after)
    ]
    with one_thread():
        return corrected_changes([between(pair, 0, 1)])[0]


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


def between(windows: Sequence[Window], first: int, second: int) -> ShareChange:
    """The change of shares from one window to another, not corrected for multiplicity."""
    difference, errors, freedom = change(windows[first], windows[second])
    p = no_change(difference, errors, freedom)
    return ShareChange(first, second, difference, errors, p, p, freedom)


def change(before: Window, after: Window) -> tuple[Floats, Floats, float]:
    """Fit the difference of the bit shares in the cohorts that both windows have.

    Returns the differences (D,), their standard errors (D,) and the degrees of freedom.
    """
    common = before.present & after.present
    first, second = before.observed(common), after.observed(common)
    if before.direct:
        (old, old_error), (new, new_error) = _direct(first), _direct(second)
        found = before.found
        return (new - old)[found], np.hypot(old_error, new_error)[found], np.inf
    return fit_differences(first, second)


def corrected_changes(changes: Sequence[ShareChange]) -> tuple[ShareChange, ...]:
    """Correct the p-values of changes by Benjamini-Hochberg over all values and pairs of
    windows."""
    sizes = [len(one.p_value) for one in changes]
    p = np.concatenate([one.p_value for one in changes])
    if not len(p):
        return tuple(changes)
    adjusted = corrected(p).adjusted
    parts = np.split(adjusted, np.cumsum(sizes)[:-1])
    return tuple(replace(one, p_adjusted=q) for one, q in zip(changes, parts, strict=True))


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
