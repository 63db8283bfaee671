"""Changes of distance bands from one window to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from decoder.comparison.differences import Differences, differences
from decoder.errors import DecodeError
from decoder.flows.tables import FlowDecoding
from decoder.typing import Floats
from rappor_core.text import counted


@dataclass(frozen=True)
class FlowChanges:
    """The changes of all quantities between pairs of windows, row by row of the pairs.

    pairs: numbers of the earlier and the later window.  rows: (pairs * quantities,) later less
    earlier, corrected over all.
    """

    pairs: tuple[tuple[int, int], ...]
    rows: Differences


def band_changes(windows: Sequence[FlowDecoding]) -> FlowChanges:
    """Compare each window with the next, and the first with the last.

    A quantity is a distance band; the last is the share of people with two different cells.
    Noise is independent between windows. Where the same devices answer in both, the people are a
    sample that both have in common, which makes intervals too wide rather than too narrow.

    Raises DecodeError for fewer than two windows, or windows of metrics of different meaning.
    """
    if len(windows) < 2:
        raise DecodeError(f"{counted(len(windows), 'window')}: a series needs two or more")
    if len({(one.metric, one.params_id) for one in windows}) > 1:
        raise DecodeError("the windows are of metrics of different meaning; give those of one")
    last = len(windows) - 1
    pairs = (*pairwise(range(last + 1)), *([(0, last)] if last > 1 else []))
    shares, errors = zip(*map(band_shares, windows), strict=True)
    changes = np.concatenate([shares[after] - shares[before] for before, after in pairs])
    std_errors = np.concatenate(
        [np.hypot(errors[before], errors[after]) for before, after in pairs]
    )
    first = windows[0]
    rows = differences(changes, std_errors, level=first.level, alpha=first.alpha)
    return FlowChanges(pairs, rows)


def band_shares(found: FlowDecoding) -> tuple[Floats, Floats]:
    """Share and standard error of each band, then of people with two different cells."""
    tables = (found.bands, found.moved)
    return (
        np.concatenate([one.estimate for one in tables]),
        np.concatenate([one.std_error for one in tables]),
    )
