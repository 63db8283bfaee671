"""`FlowDecoding`: the flows, zones, cells and distance bands in a window; changes in bands."""

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
    """A chi-square test of the answers to one question against the estimate from all of them."""

    question: str
    num_reports: int
    statistic: float
    freedom: float  # The degrees of freedom of `statistic`
    p_value: float


@dataclass(frozen=True)
class FlowDecoding(DecodedWindow):
    """The flows of a window, for P = (K + 2)^2 pairs of `Flow.side_names`, row by row."""

    flow: Flow
    level: float
    alpha: float
    repetition: float
    flows: ShareTable  # Every pair
    detected: Flags  # (P,) flags of flows between two cells detected at `alpha / K^2`
    flow_share: Floats  # (P,) one best-fit matrix, positive, which sums to 1
    gravity: Floats  # (P,) the shares of the gravity model alone
    zones: ShareTable  # Pairs of zones, row by row of Z + 2
    zones_detected: Flags  # Pairs of two zones detected at `alpha / Z^2`
    zone_share: Floats  # Sums of flow_share
    origins: ShareTable  # Sides, (K + 2)
    destinations: ShareTable  # Sides, (K + 2)
    net: ShareTable  # For each cell (K,), destinations minus origins
    bands: ShareTable  # Distance bands, by their question alone
    own_cell: ShareTable  # One row: the share of people whose two cells are the same
    moved: ShareTable  # One row: the share of people with two different cells
    tau: float  # The size of the departures from gravity
    departure_evidence: float  # The log evidence for departures over none, in nats
    checks: tuple[QuestionCheck, ...]
    detectable_share: float  # Detected 8 times in 10; 1 if no flow would be detected
    forged_shift: float  # The largest rise of a flow if 1 % of reports are fabricated
    warnings: tuple[str, ...]

    @property
    def num_detected(self) -> int:
        """The number of detected flows."""
        return int(self.detected.sum())

    @property
    def detected_share(self) -> float:
        """The share of people in the detected flows."""
        return float(np.sum(self.flow_share[self.detected]))


def band_changes(
    windows: Sequence[FlowDecoding], quantities: tuple[str, ...]
) -> tuple[WindowChange, ...]:
    """Compare the band shares of each window with the next, and of the first with the last.

    If the same devices answer in both windows, intervals are too wide, never too narrow.

    Args:
        windows: The windows, oldest first.
        quantities: The names of the bands, and of the share of people with two different cells.

    Raises:
        DecodeError: There are fewer than two windows, or the metrics have different meanings.
    """
    pairs, alpha = window_pairs(len(windows)), windows[0].alpha
    if len({(window.metric, window.params_id) for window in windows}) > 1:
        raise DecodeError("the windows are of metrics with different meanings; use one")
    shares = [band_shares(window)[:2] for window in windows]
    changes = [
        WindowChange(i, j, quantities, differences(*independent(shares[i], shares[j])))
        for i, j in pairs
    ]
    return corrected_windows(changes, alpha)


def band_shares(decoding: FlowDecoding) -> ShareTable:
    """Return the bands' shares, followed by the share of people with two different cells."""
    return ShareTable(*map(np.append, decoding.bands, decoding.moved))
