"""Change of a map between two windows, with the variance that memoised responses really leave.

A device that stays where it was repeats its permanent bits, so their noise cancels in the
difference; one that moved answers with new ones. With w the variance that every report draws
afresh, b that of the permanent bits, t (1 - t) that of who is in a cohort, r reports a device in
each window and a share of movers, the mean of a bit's difference over N devices has variance

    2 / N * (w / r + movers * (b + t (1 - t))).

The share of movers is not asked: it is read off the bits themselves, most of which do not change.
What really changed adds to it, so it errs on the side of wide intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from decoder.density.maps import Density
from decoder.errors import DecodeError
from decoder.inference.multiple_testing import Correction, decide_apart
from decoder.model.counts import unbiased_change
from decoder.model.noise import BitNoise
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate


@dataclass(frozen=True)
class MapChange:
    """Difference of shares, after minus before, (n,) each, in the order of the maps' cells.

    low, high: interval at the maps' level.  p_value: two-sided.  detected: after correction for
    the number of cells; `other` and `no_data` are each tested by themselves.  movers: share of
    devices that answered with new permanent bits, at most.
    """

    cells: tuple[str, ...]
    difference: Floats
    std_error: Floats
    low: Floats
    high: Floats
    p_value: Floats
    detected: Flags
    movers: float


def compare_maps(
    before: tuple[Density, Aggregate],
    after: tuple[Density, Aggregate],
    movers: float | None = None,
    correction: Correction = "bh",
) -> MapChange:
    """Compare two maps of one slot, each with the aggregate of its finest level.

    movers: in [0, 1], or None to estimate it. Raises DecodeError for maps of different meaning.
    """
    first, second = before[1], after[1]
    if first.params_id != second.params_id or first.metric != second.metric:
        raise DecodeError(f"{first.metric!r} and {second.metric!r} have different meanings")
    if movers is not None and not 0 <= movers <= 1:
        raise DecodeError(f"movers = {movers!r} is not between 0 and 1")
    if not first.num_reports or not second.num_reports:
        raise DecodeError(f"metric {first.metric!r}: a window without reports has no change")
    repeats = min(before[0].repetition, after[0].repetition)  # as in their standard errors
    parts = _Parts.of(BitNoise.of(first.params.mechanism), _mean_bit(first), repeats)
    share = _movers(first, second, parts) if movers is None else movers
    scale = np.sqrt(parts.variance(share) / parts.variance(1.0))
    std_error = scale * np.hypot(before[0].std_error, after[0].std_error)
    difference = after[0].estimate - before[0].estimate
    p = 2 * ndtr(-np.abs(difference / std_error))
    reserved = np.arange(len(p)) >= before[0].num_cells
    decision = decide_apart(reserved, p, np.zeros(len(p)), correction, after[0].options.alpha)
    half = -float(ndtri((1 - after[0].options.level) / 2)) * std_error
    return MapChange(before[0].cells, difference, std_error, difference - half, difference + half,
                  p, decision.detected, share)  # fmt: skip


@dataclass(frozen=True)
class _Parts:
    """Variances of a device's mean of `repeats` reports about a bit, debiased."""

    fresh: float
    permanent: float
    repeats: float
    noise: BitNoise

    @classmethod
    def of(cls, noise: BitNoise, share: float, repeats: float) -> _Parts:
        """For a bit of mean share `share`: w / r, and b + t (1 - t)."""
        within = share * noise.within(1) + (1 - share) * noise.within(0)
        between = share * noise.between(1) + (1 - share) * noise.between(0)
        scale = noise.gap**2
        permanent = between / scale + share * (1 - share)
        return cls(within / scale / repeats, permanent, repeats, noise)

    def variance(self, movers: float) -> float:
        """Of one device in one window, as far as a difference keeps it."""
        return self.fresh + movers * self.permanent


def _mean_bit(aggregate: Aggregate) -> float:
    """Mean share of a bit: h / k where hashes do not collide."""
    return min(1.0, aggregate.params.num_hashes / aggregate.params.num_bits)


def _movers(first: Aggregate, second: Aggregate, parts: _Parts) -> float:
    """Solve the mean square of the bits' differences for the share of movers.

    Two standard errors of the mean square are added: rather too many movers than too few.
    """
    totals = np.array([first.reports_per_cohort, second.reports_per_cohort], dtype=np.float64)
    present = (totals > 0).all(axis=0)
    counts = [np.array(a.bit_counts, dtype=np.float64)[present] for a in (first, second)]
    totals = totals[:, present, None]
    difference = unbiased_change(counts[0] / totals[0], counts[1] / totals[1], parts.noise)
    unit = difference**2 / (parts.repeats * (1 / totals[0] + 1 / totals[1]))
    if not unit.size:
        return 1.0
    mean = float(unit.mean()) * (1 + 2 * float(np.sqrt(2 / unit.size)))
    return float(np.clip((mean - parts.fresh) / parts.permanent, 0.0, 1.0))
