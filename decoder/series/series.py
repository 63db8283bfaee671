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
from decoder.comparison.differences import WindowChange, corrected_windows, window_pairs
from decoder.comparison.windows import Window, change
from decoder.model.repetition import repetition
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from decoder.progress import Progress, silent
from decoder.results.tables import Decoding
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate


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
