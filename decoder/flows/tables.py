"""`FlowDecoding`: flows, zones, cells and distance bands of a window, and changes of bands."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder.comparison.differences import (
    WindowChange,
    corrected_windows,
    differences,
    independent,
    window_pairs,
)
from decoder.decoded_window import DecodedWindow
from decoder.errors import DecodeError
from decoder.inference.intervals import ShareTable
from decoder.typing import Flags, Floats
from rappor_core.metrics.flow import Flow


@dataclass(frozen=True)
class QuestionCheck:
    """Whether the answers to one question fit what is estimated from all, by a chi-square test."""

    question: str
    num_reports: int
    statistic: float
    freedom: float
    p_value: float


@dataclass(frozen=True)
class FlowDecoding(DecodedWindow):
    """The flows of a window; pairs are row by row, P = (K + 2)^2, sides as `Flow.side_names`.

    flows: every pair.  detected: (P,) whether a flow between two cells is detected, at
    `alpha / K^2`.  flow_share: (P,) one best-fit matrix, positive, of sum 1.
    gravity: (P,) what the gravity model alone says.
    zones: pairs of zones, row by row of Z + 2; zones_detected: those of two zones detected, at
    `alpha / Z^2`; zone_share: sums of flow_share.
    origins, destinations: sides (K + 2).  net: of each cell (K,), destinations less origins.
    bands: distance bands, by their question alone.
    own_cell: one row, the share whose two cells are one; moved: one row, two different cells; both
    from the questions that ask it.
    tau: size of the departures from gravity; departure_evidence: for them over none, nats.
    detectable_share: a flow of this share is detected 8 times in 10; 1 where none would be.
    forged_shift: largest rise of a flow by forged answers to `pair` that are 1 % of all reports.
    """

    flow: Flow
    level: float
    alpha: float
    repetition: float
    flows: ShareTable
    detected: Flags
    flow_share: Floats
    gravity: Floats
    zones: ShareTable
    zones_detected: Flags
    zone_share: Floats
    origins: ShareTable
    destinations: ShareTable
    net: ShareTable
    bands: ShareTable
    own_cell: ShareTable
    moved: ShareTable
    tau: float
    departure_evidence: float
    checks: tuple[QuestionCheck, ...]
    detectable_share: float
    forged_shift: float
    warnings: tuple[str, ...]

    @property
    def num_detected(self) -> int:
        """Number of flows that are detected."""
        return int(self.detected.sum())

    @property
    def detected_share(self) -> float:
        """Share of people in the flows that are detected."""
        return float(np.sum(self.flow_share[self.detected]))


def band_changes(
    windows: Sequence[FlowDecoding], quantities: tuple[str, ...]
) -> tuple[WindowChange, ...]:
    """Compare each window with the next, and the first with the last.

    Where the same devices answer in both, intervals are too wide rather than too narrow.

    Args:
        windows: Oldest first.
        quantities: Names of the bands, and of two different cells.

    Raises:
        DecodeError: Fewer than two windows, or metrics of different meaning.
    """
    pairs, alpha = window_pairs(len(windows)), windows[0].alpha
    if len({(window.metric, window.params_id) for window in windows}) > 1:
        raise DecodeError("the windows are of metrics of different meaning; give those of one")
    shares = [band_shares(window)[:2] for window in windows]
    changes = [
        WindowChange(i, j, quantities, differences(*independent(shares[i], shares[j])))
        for i, j in pairs
    ]
    return corrected_windows(changes, alpha)


def band_shares(decoding: FlowDecoding) -> ShareTable:
    """Return the shares of the bands, then of people with two different cells."""
    return ShareTable(*map(np.append, decoding.bands, decoding.moved))
