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
from functools import reduce

import numpy as np
from scipy.special import stdtrit

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.comparison.differences import (
    Differences,
    WindowChange,
    corrected_windows,
    differences,
    independent,
    window_pairs,
)
from decoder.errors import DecodeError
from decoder.estimation.difference import fit_differences, noise_of_shares
from decoder.estimation.estimate import by_bit, by_boolean
from decoder.estimation.least_squares import centerd_columns, refit
from decoder.model.counts import Observed, observe, repetition
from decoder.numerics.bit_tensor import Positions, one_thread
from decoder.options import DEFAULT_LEVEL, DecodeOptions
from decoder.pipeline import decode
from decoder.progress import Progress, silent
from decoder.results.tables import Decoding
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
        columns = centerd_columns(observed.positions, observed.noise.random)
        noise = noise_of_shares(observed)
        fitted = refit(noise, observed.centerd, columns, observed.noise.random)
        errors = np.sqrt(fitted.balance.excess * np.diag(fitted.covariance))
        freedom = observed.centerd.size - len(observed.centerd) - columns.shape[1]
        return fitted.shares, errors, float(max(freedom, 1))


def change(before: Window, after: Window, level: float = DEFAULT_LEVEL) -> Differences:
    """Fit the difference of the bit shares in the cohorts that both windows have, (D,)."""
    common = before.present & after.present
    first, second = before.observed(common), after.observed(common)
    if not before.direct:
        difference, errors, freedom = fit_differences(first, second)
        return differences(difference, errors, level=level, freedom=freedom)
    difference, errors = independent(_direct(first), _direct(second))
    return differences(difference[before.found], errors[before.found], level=level)


def _direct(observed: Observed) -> tuple[Floats, Floats]:
    """Shares and standard errors of all values of a metric with one bit a value."""
    boolean = observed.bit_shares.shape[1] == 1
    estimate = (by_boolean if boolean else by_bit)(observed, 0.95)
    return estimate.shares, estimate.std_errors


@dataclass(frozen=True)
class Series:
    """Shares of D values in W windows.

    whole: the decoding of all windows together, which found the values.  windows: their counts.
    shares, std_errors, low, high: (W, D); unbiased, not clipped,
    with intervals at the level of the options.  changes: from each window to the next, then from
    the first to the last.
    """

    whole: Decoding
    values: tuple[str, ...]
    windows: tuple[Aggregate, ...]
    shares: Floats
    std_errors: Floats
    low: Floats
    high: Floats
    changes: tuple[WindowChange, ...]


def decode_over_time(
    aggregates: Sequence[Aggregate],
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
) -> Series:
    """Decode windows of one metric, oldest first. Raises DecodeError for fewer than two."""
    pairs = window_pairs(len(aggregates))
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
        names = tuple(row.value for row in whole.detected)[: len(found)]
        changes = [
            WindowChange(i, j, names, change(windows[i], windows[j], options.level))
            for i, j in pairs
        ]
    shares, errors, freedoms = (np.array(part) for part in zip(*fits, strict=True))
    quantiles = -np.asarray(stdtrit(freedoms, (1 - options.level) / 2))
    margin = quantiles[:, None] * errors
    return Series(
        whole=whole,
        values=names,
        windows=tuple(aggregates),
        shares=shares,
        std_errors=errors,
        low=np.clip(shares - margin, 0, 1),
        high=np.clip(shares + margin, 0, 1),
        changes=corrected_windows(changes, options.alpha),
    )


def _found(whole: Decoding) -> Indices:
    """Detected values, largest first; where they share bits half as many as can be fitted."""
    found = whole.candidates.found
    most = whole.params.num_cohorts * (whole.params.num_bits - 1) // 2
    return found if whole.diagnostics.method == "direct" else found[:most]
