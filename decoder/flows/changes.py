"""Changes of distance bands from one window to another."""

from __future__ import annotations

from collections.abc import Sequence

from decoder.comparison.differences import (
    WindowChange,
    corrected_windows,
    differences,
    independent,
    window_pairs,
)
from decoder.errors import DecodeError
from decoder.flows.tables import FlowDecoding, ShareTable


def band_changes(
    windows: Sequence[FlowDecoding], quantities: tuple[str, ...]
) -> tuple[WindowChange, ...]:
    """Compare each window with the next, and the first with the last.

    A quantity is a distance band; the last is the share of people with two different cells.
    Noise is independent between windows. Where the same devices answer in both, the people are a
    sample that both have in common, which makes intervals too wide rather than too narrow.

    Args:
        windows: Oldest first.
        quantities: Names of the bands, and of two different cells.

    Raises:
        DecodeError: Fewer than two windows, or metrics of different meaning.
    """
    pairs = window_pairs(len(windows))
    if len({(one.metric, one.params_id) for one in windows}) > 1:
        raise DecodeError("the windows are of metrics of different meaning; give those of one")
    shares = [(table.estimate, table.std_error) for table in map(band_shares, windows)]
    level, alpha = windows[0].level, windows[0].alpha
    changes = [
        WindowChange(i, j, quantities, differences(*independent(shares[i], shares[j]), level=level))
        for i, j in pairs
    ]
    return corrected_windows(changes, alpha)


def band_shares(found: FlowDecoding) -> ShareTable:
    """Shares of the bands, then of people with two different cells."""
    return found.bands.followed_by(found.moved)
