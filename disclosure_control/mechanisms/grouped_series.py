"""Noisy series of many stations through series of few groups, whose sums are large against the
noise.

Stations of little traffic are grouped before noise is added; the series of each group is perturbed;
then each station gets a part of its group's series, by its total over all slots, which was
perturbed too. The text on series names both steps and the second noise, and gives neither a split
of the budget, nor a bound on what one person contributes, nor what happens to a group of total 0.
Here both charges are stated, contributions are bounded first, and such a group is split evenly.

A station's series is then its group's shape at the station's own size: what makes the shape of a
station unlike that of its group is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from disclosure_control.errors import TableError
from disclosure_control.mechanisms.budget import BudgetLedger, Charge
from disclosure_control.mechanisms.noise import add_geometric
from disclosure_control.mechanisms.series import perturb_by_dct_gaussian
from disclosure_control.typing import Floats, Integers


@dataclass(frozen=True)
class StationVisits:
    """The events to count, (events,) each: person, station, slot. Private."""

    persons: Integers
    stations: Integers
    slots: Integers


def release_grouped_series(
    visits: StationVisits,
    groups: Integers,
    num_slots: int,
    *,
    kept: int,
    max_visits: int,
    shape: Charge,
    sizes: Charge,
    ledger: BudgetLedger,
    rng: np.random.Generator,
) -> Floats:
    """Publish noisy series of groups of stations, split over the stations of each group.

    Each person counts once in a slot of a group, and in `max_visits` of those at most. One person
    then changes the series of all groups by sqrt(max_visits) in L2, and the totals of all stations
    by max_visits in L1. The whole costs the sum of both charges.

    Args:
        visits: of persons whose data are in these events alone.
        groups: (stations,) group of each station, 0 or more. Public: grouping by these events would
            cost more than is charged.
        num_slots: slots of a series.
        kept: cosine coefficients of each group; public as well.
        max_visits: slots of groups that a person counts in.
        shape: for the series of groups (Gaussian noise; delta above 0).
        sizes: for the totals of stations (geometric noise; delta 0).
        ledger: charged before any noise is drawn.
        rng: seeded by the system in production.

    Returns:
        (stations, num_slots). The stations of a group add up to the series of the group.

    Raises:
        BudgetError: the ledger does not suffice.
        TableError: numbers outside their range.
    """
    _check(visits, groups, num_slots, max_visits)
    bounded = _bounded(visits, groups, num_slots, max_visits, rng)
    ledger.spend("series of groups", shape)
    ledger.spend("totals of stations", sizes)
    series = np.zeros((int(groups.max()) + 1, num_slots))
    np.add.at(series, (groups[bounded.stations], bounded.slots), 1.0)
    l2 = math.sqrt(max_visits)
    noisy = np.array([perturb_by_dct_gaussian(one, kept, l2, shape, rng) for one in series])
    totals = np.bincount(bounded.stations, minlength=len(groups))
    sized = add_geometric(totals, max_visits, sizes.epsilon, rng)
    return rescale(noisy, groups, np.maximum(sized, 0).astype(float))


def rescale(series: Floats, groups: Integers, sizes: Floats) -> Floats:
    """Split the series of each group over its stations, in proportion to their sizes.

    Args:
        series: (groups, slots).
        groups: (stations,) group of each station.
        sizes: (stations,) 0 or more; a group of which all are 0 is split evenly.

    Returns:
        (stations, slots).
    """
    whole = np.bincount(groups, sizes, len(series))
    members = np.bincount(groups, minlength=len(series))
    even = whole[groups] == 0
    weights = np.where(even, 1.0 / members[groups], sizes / np.where(even, 1.0, whole[groups]))
    found: Floats = weights[:, None] * series[groups]
    return found


def _check(visits: StationVisits, groups: Integers, num_slots: int, max_visits: int) -> None:
    sizes = {len(visits.persons), len(visits.stations), len(visits.slots)}
    if len(sizes) != 1 or not len(groups) or groups.min() < 0 or min(num_slots, max_visits) < 1:
        raise TableError(
            f"events of one length, groups of 0 or more, num_slots and max_visits of 1 or more "
            f"are needed: {sizes}, {len(groups)} stations, {num_slots}, {max_visits}"
        )
    for name, values, end in (
        ("stations", visits.stations, len(groups)),
        ("slots", visits.slots, num_slots),
    ):
        if len(values) and not (values.min() >= 0 and values.max() < end):
            raise TableError(f"{name} must lie in [0, {end})")


def _bounded(
    visits: StationVisits, groups: Integers, num_slots: int, most: int, rng: np.random.Generator
) -> StationVisits:
    """One random event of each person, group and slot; then `most` random ones of each person."""
    order = rng.permutation(len(visits.persons))
    persons, stations, slots = (
        column[order] for column in (visits.persons, visits.stations, visits.slots)
    )
    cells = np.column_stack([persons, groups[stations] * num_slots + slots])
    first = np.sort(np.unique(cells, axis=0, return_index=True)[1])
    first = first[np.argsort(persons[first], kind="stable")]
    who = persons[first]
    starts = np.flatnonzero(np.r_[True, who[1:] != who[:-1]]) if len(who) else np.zeros(0, int)
    rank = np.arange(len(who)) - np.repeat(starts, np.diff([*starts, len(who)]))
    chosen = first[rank < most]
    return StationVisits(persons[chosen], stations[chosen], slots[chosen])
