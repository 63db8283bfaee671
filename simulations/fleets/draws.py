"""Counts of a fleet over periods, drawn exactly in law, whatever the number of devices.

A device comes with a value for as long as it stays. Devices that came and left together, in one
cohort, are a class. Given how many of a class hold each value, the bits of its devices are
independent, so sums over devices are binomial: of the permanent bits once, when the class comes,
and of the instantaneous ones in each period, given the permanent ones. Nothing is approximated; the
cost is that of values, cohorts, bits and periods, not of devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder.typing import Floats
from rappor_core.errors import RapporError
from rappor_core.params import RapporParams
from simulations.populations.draws import bits_set, rounds_of

Counts = NDArray[np.int64]
MOST_PERIODS = 104
MOST_DEVICES = 1 << 40  # sums of their reports stay far below 2**63
_CLASSES, _COHORT = 0, 1  # first word of the keys of the random streams


class FleetError(RapporError, ValueError):
    """A fleet that cannot be drawn."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """A population of devices, each with one value for as long as it stays.

    params: of the metric.  shares: of the values among the devices that come, (V,), sum 1.
    positions: bits that each value sets in each cohort, (V, m, h); num_bits stands for none.
    devices: in each period.  periods: T.  turnover: the chance of a device to leave after a
    period, and to be replaced by a new one.  reports_each: reports of a device in a period.

    Raises FleetError for what is out of range, and for metrics that report symbols.
    """

    params: RapporParams
    shares: Floats
    positions: NDArray[np.integer]
    devices: int
    periods: int = 1
    turnover: float = 0.0
    reports_each: int = 1

    def __post_init__(self) -> None:
        """Refuse what is no fleet."""
        for name, most in (
            ("devices", MOST_DEVICES), ("periods", MOST_PERIODS), ("reports_each", 1000)
        ):  # fmt: skip
            if not 1 <= getattr(self, name) <= most:
                raise FleetError(f"{name} = {getattr(self, name)} is not from 1 to {most}")
        if not 0 <= self.turnover <= 1:
            raise FleetError(f"turnover = {self.turnover:g} is not from 0 to 1")
        if self.params.scheme.symbols:
            raise FleetError("reports of symbols are not drawn as a fleet; only those of bits are")
        if self.positions.shape[:2] != (len(self.shares), self.params.num_cohorts):
            raise FleetError("positions are not those of the values in each cohort")


@dataclass(frozen=True, eq=False)
class FleetCounts:
    """By period: reports (T, m), bit counts (T, m, k), devices that hold each value (T, V)."""

    reports: Counts
    bit_counts: Counts
    holders: Counts


def draw_classes(fleet: Fleet, seed: int) -> Counts:
    """Draw how many devices came in period a and left before period b, by cohort, (T, T + 1, m)."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_CLASSES,)))
    periods, cohorts = fleet.periods, fleet.params.num_cohorts
    sizes = np.zeros((periods, periods + 1, cohorts), dtype=np.int64)
    equal = np.full(cohorts, 1 / cohorts)
    staying = np.zeros((0, cohorts), dtype=np.int64)  # by period in which they came
    for now in range(periods):
        missing = fleet.devices - int(staying.sum())
        staying = np.vstack([staying, rng.multinomial(missing, equal)[None]])
        leaving = staying if now + 1 == periods else rng.binomial(staying, fleet.turnover)
        sizes[: now + 1, now + 1] = leaving
        staying = staying - leaving
    return sizes


def no_counts(params: RapporParams, periods: int, num_values: int) -> FleetCounts:
    """Counts of zero, of a given shape."""
    shape = (periods, params.num_cohorts)
    return FleetCounts(
        np.zeros(shape, dtype=np.int64),
        np.zeros((*shape, params.num_bits), dtype=np.int64),
        np.zeros((periods, num_values), dtype=np.int64),
    )


def draw_cohort(fleet: Fleet, sizes: Counts, cohort: int, seed: int, counts: FleetCounts) -> None:
    """Add one cohort: who holds what, permanent bits of each class, and reports of each period.

    Args:
        fleet: of which it is a part.
        sizes: of its classes in this cohort, (T, T + 1).
        cohort: its number, which with the seed gives the random stream.
        seed: of the fleet.
        counts: changed in place.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_COHORT, cohort)))
    positions = fleet.positions[:, [cohort]]
    p1, q1, p2, q2 = rounds_of(fleet.params)
    periods, bits = len(sizes), fleet.params.num_bits
    devices = np.zeros(periods, dtype=np.int64)
    permanent = np.zeros((periods, bits), dtype=np.int64)
    for came, left in np.argwhere(sizes):
        size = sizes[came, left]
        held = rng.multinomial(size, fleet.shares)
        truth = bits_set(held[None], positions, bits)[0]
        kept = rng.binomial(truth, p1) + rng.binomial(size - truth, q1)
        devices[came:left] += size
        permanent[came:left] += kept
        counts.holders[came:left] += held
    each = fleet.reports_each
    clear = devices[:, None] - permanent
    counts.reports[:, cohort] = each * devices
    counts.bit_counts[:, cohort] = rng.binomial(each * permanent, p2) + rng.binomial(
        each * clear, q2
    )


def repetition(sizes: Counts, periods: int, reports_each: int = 1) -> float:
    """The repetition rho = sum r^2 / sum r over devices, of their reports r in the first
    periods."""
    came, left = np.indices(sizes.shape[:2])
    reports = reports_each * np.clip(np.minimum(left, periods) - came, 0, None)
    number = sizes.sum(axis=2)
    return float((number * reports.astype(float) ** 2).sum() / (number * reports).sum())
