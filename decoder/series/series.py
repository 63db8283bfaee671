"""Shares over time: a series for each value found, and a test for change between two windows.

Values are found once, in all windows together. In each window their shares are then fitted by
weighted least squares, everything else being unlisted. The change between two windows is fitted
on the difference of their bit shares, and its variance is read off that difference itself: a
device that repeats its permanent bits in both windows makes it smaller, one that repeats them
within a window makes it larger, and neither has to be known (docs/method.md, "Over time").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from itertools import pairwise

import numpy as np
from scipy.special import stdtr, stdtrit

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.errors import DecodeError
from decoder.estimation.estimate import Observed, by_bit, by_boolean
from decoder.estimation.least_squares import centred_columns
from decoder.estimation.refit import Refit, refit
from decoder.inference.multiple_testing import decide
from decoder.model.repetition import repetition
from decoder.numerics.bit_tensor import Positions
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.pipeline import decode, observe
from decoder.progress import Progress, silent
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate

_LOUDER = 3  # steps of the repetition that the noise of a difference shows


@dataclass(frozen=True)
class ShareChange:
    """From one window to another, for each value found, (D,).

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
        margin = -float(stdtrit(self.freedom, (1 - level) / 2)) * self.std_error
        return self.difference - margin, self.difference + margin


@dataclass(frozen=True)
class Series:
    """Shares of D values in W windows.

    whole: the decoding of all windows together, which found the values.  windows: first and last
    day of each.  reports: (W,).  shares, std_errors, low, high: (W, D); unbiased, not clipped,
    with intervals at the level of the options.  changes: from each window to the next, then from
    the first to the last.
    """

    whole: Decoding
    values: tuple[str, ...]
    windows: tuple[tuple[date | None, date | None], ...]
    reports: tuple[int, ...]
    shares: Floats
    std_errors: Floats
    low: Floats
    high: Floats
    changes: tuple[ShareChange, ...]


def decode_over_time(
    aggregates: Sequence[Aggregate],
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
) -> Series:
    """Decode windows of one metric, oldest first. Raises DecodeError for fewer than two."""
    if len(aggregates) < 2:
        raise DecodeError(f"{len(aggregates)} window(s): a series needs two or more")
    options = options or DecodeOptions()
    aggregates = [one.without(options.without_cohorts) for one in aggregates]
    candidates = in_bit_order(candidates, aggregates[0])
    tensor = candidates.positions(aggregates[0].params, progress)
    candidates = replace(candidates, tensor=tensor)
    whole = decode(reduce(Aggregate.merge, aggregates), candidates, options, progress)
    found = _found(whole)
    direct = candidates.direct(whole.params)
    windows = [Window(a, tensor, found, repetition(a, options.repeats), direct) for a in aggregates]
    with one_thread():
        fits = []
        for done, window in enumerate(windows, start=1):
            fits.append(window.fit())
            progress("windows", done, len(windows))
        changes = [_between(windows, *pair) for pair in _pairs(len(windows))]
    shares, errors, freedoms = (np.array(part) for part in zip(*fits, strict=True))
    quantiles = -np.asarray(stdtrit(freedoms, (1 - options.level) / 2))
    margin = quantiles[:, None] * errors
    return Series(
        whole=whole,
        values=tuple(_names(whole, found)),
        windows=tuple((a.first_day, a.last_day) for a in aggregates),
        reports=tuple(a.num_reports for a in aggregates),
        shares=shares,
        std_errors=errors,
        low=np.clip(shares - margin, 0, 1),
        high=np.clip(shares + margin, 0, 1),
        changes=_corrected(changes),
    )


def compare_windows(
    before: Aggregate, after: Aggregate, candidates: Candidates, repeats: float | None = None
) -> ShareChange:
    """Difference of the shares of all `candidates`, in their order, second window less first.

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
        return _corrected([_between(pair, 0, 1)])[0]


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
        """Cohorts with reports, (m,)."""
        return np.array(self.aggregate.reports_per_cohort) > 0

    def observed(self, cohorts: Flags) -> Observed:
        """What was seen in `cohorts`; the positions are those of the values followed."""
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


def _pairs(total: int) -> list[tuple[int, int]]:
    """Neighbours, then the two ends where they are not neighbours."""
    ends = [(0, total - 1)] if total > 2 else []
    return [*pairwise(range(total)), *ends]


def _between(windows: Sequence[Window], first: int, second: int) -> ShareChange:
    difference, errors, freedom = change(windows[first], windows[second])
    p = np.asarray(2 * stdtr(freedom, -np.abs(difference / errors)), dtype=np.float64)
    return ShareChange(first, second, difference, errors, p, p, freedom)


def change(before: Window, after: Window) -> tuple[Floats, Floats, float]:
    """Fit the difference of the bit shares in the cohorts that both windows have.

    Where it is noisier than the windows' repetition says, reports are taken to repeat more: that
    widens the errors of heavy values, whose sampling repeats, more than those of the others.
    Returns the differences (D,), their standard errors (D,) and the degrees of freedom.
    """
    common = before.present & after.present
    first, second = before.observed(common), after.observed(common)
    if before.direct:
        (old, old_error), (new, new_error) = _direct(first), _direct(second)
        found = before.found
        return (new - old)[found], np.hypot(old_error, new_error)[found], np.inf
    fitted = _difference(first, second)
    for _ in range(_LOUDER):
        if fitted.balance.ratio <= 1:
            break
        repeats = first.noise.repetition_of(fitted.balance.ratio)
        first, second = first.repeated(repeats), second.repeated(repeats)
        fitted = _difference(first, second)
    errors = np.sqrt(fitted.balance.ratio * np.diag(fitted.covariance))
    return fitted.shares, errors, _freedom(first)


def _difference(first: Observed, second: Observed) -> Refit:
    """Least squares on the difference of the bit shares, the noise being that of both windows."""
    noise = _noise(first) + _noise(second)
    target, random = second.bit_shares - first.bit_shares, first.noise.random
    return refit(noise, target, _columns(first), random, settle=False)


def _corrected(changes: Sequence[ShareChange]) -> tuple[ShareChange, ...]:
    """Benjamini-Hochberg over all values and pairs of windows."""
    sizes = [len(one.p_value) for one in changes]
    p = np.concatenate([one.p_value for one in changes])
    if not len(p):
        return tuple(changes)
    adjusted = decide(p, p, "bh", 0.5).adjusted
    parts = np.split(adjusted, np.cumsum(sizes)[:-1])
    return tuple(replace(one, p_adjusted=q) for one, q in zip(changes, parts, strict=True))


def _least_squares(observed: Observed) -> Refit:
    """Weighted least squares on the values followed; everything else is unlisted."""
    columns = _columns(observed)
    return refit(_noise(observed), observed.centred, columns, observed.noise.random)


def _noise(observed: Observed) -> Floats:
    """Covariance of the noise at the shares of a first, unweighted fit: (m, k, k)."""
    columns = _columns(observed)
    shares = np.linalg.lstsq(columns, observed.centred.ravel(), rcond=None)[0]
    return observed.noise_of(np.asarray(shares, dtype=np.float64))


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


def _found(whole: Decoding) -> Indices:
    """Detected values, largest first; where they share bits half as many as can be fitted."""
    found = whole.candidates.found
    most = whole.params.num_cohorts * (whole.params.num_bits - 1) // 2
    return found if whole.diagnostics.method == "direct" else found[:most]


def _names(whole: Decoding, found: Indices) -> list[str]:
    return [row.value for row in whole.detected][: len(found)]
