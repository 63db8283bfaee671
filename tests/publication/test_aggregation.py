"""Merging of places: the constructed vector, invariants, and estimates with standard errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disclosure_control.errors import TableError
from publication.aggregation import merge_by_floor, merge_by_significance

COUNTS = np.array([[6, 7, 5, 9], [2, 5, 6, 4], [0, 1, 8, 9], [10, 10, 10, 10]], dtype=float)
LINE = np.array([[0.0], [1.0], [5.0], [6.0]])


def test_constructed_vector() -> None:
    merged = merge_by_floor(COUNTS, LINE, 5)
    assert merged.of_place.tolist() == [0, 0, 1, 1]
    assert merged.values.tolist() == [[8, 12, 11, 13], [10, 11, 18, 19]]
    assert merged.raised == 0
    assert not merged.unreached.any()


def test_merging_stops_at_the_least_number_of_groups_and_reports_its_bias() -> None:
    merged = merge_by_floor(COUNTS, LINE, 5, min_groups=3)
    assert merged.of_place.tolist() == [0, 0, 1, 2]
    assert merged.values[1].tolist() == [5, 5, 8, 9]
    assert merged.raised == 9
    assert merged.unreached.sum() == 2


def test_a_closed_place_is_not_raised_to_the_floor() -> None:
    counts = np.array([[0.0, 50], [0.0, 60]])
    line = np.array([[0.0], [1.0]])
    merged = merge_by_floor(counts, line, 5, open_slots=counts > 0)
    assert merged.of_place.tolist() == [0, 1]
    assert merged.values.tolist() == counts.tolist()
    assert merge_by_floor(counts, line, 5).values.tolist() == [[5, 110]]


def test_who_is_counted_in_a_closed_slot_is_merged_too() -> None:
    """Three persons of a slot in which both places are closed are not published as three."""
    counts, line = np.array([[3.0, 9.0, 0.0], [9.0, 9.0, 0.0]]), np.array([[0.0], [1.0]])
    closed = np.array([[False, True, False]] * 2)
    merged = merge_by_floor(counts, line, 5, open_slots=closed)
    assert merged.values.tolist() == [[12, 18, 0]]
    alone = merge_by_floor(counts[:1], line[:1], 5, open_slots=closed[:1])
    assert alone.values.tolist() == [[5, 9, 0]]


def test_a_merged_group_lies_at_the_mean_of_its_places() -> None:
    """Groups 0 1 2 at x = 1; place 3 at 3.4 is nearer to place 4 at 5.5 than to that mean."""
    counts = np.array([[1.0], [1], [9], [1], [9]])
    line = np.array([[0.0], [1], [2], [3.4], [5.5]])
    merged = merge_by_floor(counts, line, 5)
    assert merged.of_place.tolist() == [0, 0, 0, 1, 1]


def test_estimates_are_merged_until_they_are_significant() -> None:
    estimates = np.array([[10.0], [4.0], [30.0], [-3.0]])
    errors = np.full((4, 1), 5.0)
    merged = merge_by_significance(estimates, errors, LINE, 1.9)
    assert merged.of_place.tolist() == [0, 0, 1, 1]
    assert merged.values.ravel().tolist() == [14, 27]
    assert merged.std_errors == pytest.approx(np.full((2, 1), np.sqrt(50)))
    assert not merged.unreached.any()


def test_what_stays_insignificant_is_marked() -> None:
    errors = np.full((4, 1), 5.0)
    merged = merge_by_significance(np.ones((4, 1)), errors, LINE, 2)
    assert merged.of_place.tolist() == [0, 0, 0, 0]
    assert merged.unreached.all()


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_every_place_is_in_one_group_and_no_count_is_lost(places, slots, floor, seed) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(10, (places, slots)).astype(float)
    merged = merge_by_floor(counts, rng.normal(size=(places, 2)), floor)
    assert set(merged.of_place.tolist()) == set(range(len(merged.values)))
    assert merged.values.min() >= floor
    assert merged.values.sum() == pytest.approx(counts.sum() + merged.raised)
    assert len(merged.values) == 1 or not merged.unreached.any()


@pytest.mark.parametrize(
    "call",
    [
        lambda: merge_by_floor(COUNTS, LINE[:3], 5),
        lambda: merge_by_floor(COUNTS, LINE, 0),
        lambda: merge_by_floor(-COUNTS, LINE, 5),
        lambda: merge_by_floor(COUNTS + np.nan, LINE, 5),
        lambda: merge_by_floor(COUNTS, LINE, np.inf),
        lambda: merge_by_floor(COUNTS, LINE, 5, min_groups=0),
        lambda: merge_by_floor(COUNTS, LINE, 5, open_slots=np.ones((1, 1), dtype=bool)),
        lambda: merge_by_significance(COUNTS, COUNTS, LINE, 2),
        lambda: merge_by_significance(COUNTS, COUNTS + 1, LINE, 0),
        lambda: merge_by_floor(COUNTS[:0], LINE[:0], 5),
    ],
)
def test_what_cannot_be_merged_is_refused(call) -> None:
    with pytest.raises(TableError):
        call()


def test_the_centre_moves_as_a_group_grows() -> None:
    """At 3.0 the mean of places 0 1 2 is nearer than place 4; their first place is not."""
    counts = np.array([[1.0], [1], [9], [1], [9]])
    line = np.array([[0.0], [1], [2], [3.0], [5.5]])
    assert merge_by_floor(counts, line, 5).of_place.tolist() == [0, 0, 0, 0, 1]


def test_the_group_with_the_largest_share_of_small_slots_goes_first() -> None:
    counts = np.array([[4.0, 9], [9, 9], [1, 1]])
    line = np.array([[0.0], [-0.9], [1.0]])
    assert merge_by_floor(counts, line, 5).of_place.tolist() == [0, 1, 0]
