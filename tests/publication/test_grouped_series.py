"""Series of stations by way of groups: sums, the bound on a person, the charges."""

from __future__ import annotations

import numpy as np
import pytest

from disclosure_control.errors import BudgetError, TableError
from disclosure_control.mechanisms import (
    BudgetLedger,
    Charge,
    StationVisits,
    release_grouped_series,
    rescale,
)
from disclosure_control.mechanisms.grouped_series import _bounded

GROUPS = np.array([0, 0, 1])


def visits(seed: int, persons: int = 200, events: int = 3000) -> StationVisits:
    rng = np.random.default_rng(seed)
    return StationVisits(
        rng.integers(0, persons, events), rng.integers(0, 3, events), rng.integers(0, 24, events)
    )


def test_a_group_is_split_by_size_and_evenly_where_all_sizes_are_0() -> None:
    series = np.array([[10.0, 20.0], [4.0, -2.0]])
    assert rescale(series, GROUPS, np.array([1.0, 3.0, 5.0])).tolist() == [
        [2.5, 5.0], [7.5, 15.0], [4.0, -2.0],
    ]  # fmt: skip
    even = rescale(series, GROUPS, np.zeros(3))
    assert even.tolist() == [[5.0, 10.0], [5.0, 10.0], [4.0, -2.0]]


def test_one_person_changes_no_more_than_the_noise_is_scaled_to() -> None:
    """With the same draws for the others: the largest change of series (L2) and totals (L1)."""
    for seed in range(20):
        for most in (1, 3, 7):
            kept = _bounded(visits(seed), GROUPS, 24, most, np.random.default_rng(0))
            for person in range(20):
                mine = kept.persons == person
                series = np.zeros((2, 24))
                np.add.at(series, (GROUPS[kept.stations[mine]], kept.slots[mine]), 1)
                assert series.max() <= 1
                assert np.linalg.norm(series) <= np.sqrt(most)
                assert mine.sum() <= most


def test_what_others_keep_does_not_depend_on_a_person_who_is_rare() -> None:
    """Nothing is dropped where nobody passes the bound: counts are those of distinct events."""
    given = StationVisits(np.array([1, 1, 2]), np.array([0, 1, 2]), np.array([3, 3, 3]))
    kept = _bounded(given, GROUPS, 24, 5, np.random.default_rng(0))
    assert sorted(kept.persons.tolist()) == [1, 2]  # both stations are of group 0


def release(
    given: StationVisits, epsilon: float, ledger: BudgetLedger, kept: int = 24
) -> np.ndarray:
    return release_grouped_series(
        given, GROUPS, 24, kept=kept, max_visits=24, shape=Charge(epsilon, 1e-6),
        sizes=Charge(epsilon), ledger=ledger, rng=np.random.default_rng(0),
    )  # fmt: skip


def test_without_noise_stations_add_up_to_their_group() -> None:
    given = visits(1, persons=3000)
    made = release(given, 1e9, BudgetLedger(Charge(1e12, 1e-3)))
    cells = {
        (p, GROUPS[s], t)
        for p, s, t in zip(given.persons, given.stations, given.slots, strict=True)
    }
    exact = np.zeros((2, 24))
    for _, group, slot in cells:
        exact[group, slot] += 1
    assert made[2] == pytest.approx(exact[1], abs=1e-3)
    assert made[:2].sum(axis=0) == pytest.approx(exact[0], abs=1e-3)
    assert made[0] / made[1] == pytest.approx(np.full(24, (made[0] / made[1])[0]))


def test_both_charges_are_entered_and_refused_together_with_the_data_unread() -> None:
    ledger = BudgetLedger(Charge(1.0, 1e-6))
    release(visits(2), 0.5, ledger)
    assert ledger.spent_epsilon == 1.0
    with pytest.raises(BudgetError, match="series of groups"):
        release(visits(2), 0.5, ledger)


@pytest.mark.parametrize("bad", [{"stations": np.array([3])}, {"slots": np.array([24])},
                                 {"persons": np.array([1, 2])}])  # fmt: skip
def test_events_outside_their_range_are_refused(bad: dict[str, np.ndarray]) -> None:
    fields = {"persons": np.array([1]), "stations": np.array([0]), "slots": np.array([0])}
    with pytest.raises(TableError):
        release(StationVisits(**fields | bad), 1.0, BudgetLedger(Charge(9.0, 1e-3)))
