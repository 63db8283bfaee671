"""The joint table from a collector's counters: exact, with unlisted values and repeated reports."""

from __future__ import annotations

import random
from datetime import timedelta

import numpy as np
import pytest

from client_sdk import Encoder
from decoder.association.linked import UNLISTED, Side
from decoder.association.linked_counts import decode_linked, linked_counts, linked_side
from decoder.association.moments import Moments, fit_moments, moments_independence
from decoder.candidates.lists import Candidates
from decoder.errors import DecodeError, ImproperError
from decoder.model.repetition import linked_repetition
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.errors import AggregateError
from rappor_core.wire.linked import Pair
from tests.association_support import linked_file, linked_pair
from tests.collector.support import TODAY, set_bits
from tests.linked_draws import one_hot_side

FILE = linked_file()
HOME, THEME = FILE.associations


def aggregate_of(pairs: list[Pair], one: object = HOME, days: int = 1) -> AssociationAggregate:
    """Count linked reports bit by bit, as a collector does."""
    association = HOME if one is HOME else THEME
    m, (k1, k2) = association.num_cohorts, association.shape
    reports = [0] * m
    bits = [[[0] * k for _ in range(m)] for k in (k1, k2)]
    both = [[0] * (k1 * k2) for _ in range(m)]
    for pair in pairs:
        cohort = pair[0].cohort
        reports[cohort] += 1
        first, second = (set_bits(part.bits) for part in pair)
        for side, some in enumerate((first, second)):
            for bit in some:
                bits[side][cohort][bit] += 1
        for a in first:
            for b in second:
                both[cohort][a * k2 + b] += 1
    return AssociationAggregate(
        association=association,
        reports_per_cohort=tuple(reports),
        bit_counts=(tuple(map(tuple, bits[0])), tuple(map(tuple, bits[1]))),
        pair_counts=tuple(map(tuple, both)),
        first_day=TODAY,
        last_day=TODAY + timedelta(days=days - 1),
    )


def test_bits_of_a_side_are_the_devices() -> None:
    """In the shared cohort, also of the metric that hashes in the cohort of the other."""
    metric = FILE.metrics["engine"]
    side = linked_side(metric, Candidates.from_strings(["b", "c"]), 4)
    assert side.values == ("b", "c", UNLISTED)
    for seed in range(8):
        secret = random.Random(seed).randbytes(32)
        encoder = Encoder(FILE.metrics, secret).metric("engine")
        bits = encoder.value_bits("b")
        assert [int(x) for x in side.designs[encoder.cohort, :, 0]] == [
            bits >> bit & 1 for bit in range(12)
        ]
    theme = linked_side(FILE.metrics["theme"], None, 3)
    assert theme.values == ("light", "dark", "system")
    assert np.array_equal(theme.designs, np.broadcast_to(np.eye(3), (3, 3, 3)))
    assert linked_side(FILE.metrics["crashed"], None, 1).designs.tolist() == [[[0.0, 1.0]]]


def test_tables_are_near_the_truth_unlisted_included() -> None:
    """Five standard errors; a tenth of the devices holds strings that no list has."""
    rng, held, pairs = random.Random(3), [], []
    for number in range(4_000):
        home = rng.choice(["a", "b"]) if rng.random() < 0.9 else f"site {number}"
        engine = {"a": "x", "b": "y"}.get(home, "x") if rng.random() < 0.7 else "y"
        held.append((home if home in "ab" else UNLISTED, engine))
        pairs.append(linked_pair(FILE, "home_engine", (home, engine), TODAY, rng))
    lists = Candidates.from_strings(["a", "b"]), Candidates.from_strings(["x", "y"])
    table = decode_linked(aggregate_of(pairs), lists)
    assert table.of == ("homepage", "engine")
    assert (table.num_reports, table.metric) == (4_000, "home_engine")
    assert table.independence.rejected
    for i, row in enumerate(table.rows):
        for j, column in enumerate(table.columns):
            share = held.count((row, column)) / 4_000
            error = float(table.variances[i, j]) ** 0.5
            assert abs(table.estimate[i, j] - share) < 5 * error


def test_lists_that_are_missing_or_needless_are_refused() -> None:
    rng = random.Random(1)
    pairs = [linked_pair(FILE, "home_engine", ("a", "b"), TODAY, rng) for _ in range(50)]
    some = Candidates.from_strings(["a", "b"])
    with pytest.raises(DecodeError, match="'engine' needs a list"):
        decode_linked(aggregate_of(pairs), (some, None))
    with pytest.raises(DecodeError, match="cohort 9 is not one of 0 to 3"):
        decode_linked(aggregate_of(pairs), (some, some), DecodeOptions(without_cohorts=(9,)))
    empty = DecodeOptions(without_cohorts=(0, 1, 2, 3))
    with pytest.raises(DecodeError, match="no linked reports"):
        decode_linked(aggregate_of(pairs), (some, some), empty)
    many = Candidates.from_strings(str(n) for n in range(200))
    with pytest.raises((ImproperError, DecodeError)):
        decode_linked(aggregate_of(pairs), (many, many))


def test_how_often_devices_report_follows_from_the_window() -> None:
    rng = random.Random(1)
    pairs = [linked_pair(FILE, "theme_crashed", ("dark", True), TODAY, rng) for _ in range(9)]
    assert linked_repetition(aggregate_of(pairs, THEME, days=5), None) == 5
    assert linked_repetition(aggregate_of(pairs, THEME, days=5), 2.0) == 2
    table = decode_linked(aggregate_of(pairs, THEME, days=5))
    assert any("5 reports of a device" in warning for warning in table.warnings)


def repeated(
    side: Side, values: Floats, times: int, rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Report bits, (times, N, k): the permanent ones drawn once, the fresh ones each time."""
    noise, true = side.noise, side.designs[0].T[values.astype(int)] > 0
    kept = rng.random(true.shape) < np.where(true, noise.keep_one, noise.keep_zero)
    chance = np.where(kept, noise.show_one, noise.show_zero)
    return (rng.random((times, *true.shape)) < chance).astype(float)


def drawn_counts(
    shares: Floats, sides: tuple[Side, Side], devices: int, times: int, rng: np.random.Generator
) -> Floats:
    cells = rng.choice(shares.size, size=devices, p=shares.ravel())
    held = np.divmod(cells, shares.shape[1])
    bits = [
        repeated(side, values, times, rng).reshape(times * devices, -1)
        for side, values in zip(sides, held, strict=True)
    ]
    ones = np.ones((times * devices, 1))
    first, second = (np.hstack([ones, some]) for some in bits)
    return np.asarray((first.T @ second)[None])


SHARES = np.array([[0.4, 0.1], [0.1, 0.2], [0.05, 0.15]])
SIDES = one_hot_side("a", 3, 0.5, 0.1, 0.9), one_hot_side("b", 2, 0.5, 0.1, 0.9)


@pytest.mark.parametrize("times", [1, 6])
def test_the_covariance_holds_for_devices_that_report_again(times: int) -> None:
    """600 draws of 400 devices: each variance within 6 standard errors of a chi-squared."""
    rng, found, stated = np.random.default_rng(7), [], []
    for _ in range(600):
        counts = drawn_counts(SHARES, SIDES, 400, times, rng)
        fit = fit_moments(Moments.of(counts, *SIDES, float(times)))
        found.append(fit.estimate.ravel())
        if len(stated) < 30:
            stated.append(np.diag(fit.covariance()))
    observed, expected = np.array(found).var(axis=0, ddof=1), np.mean(stated, axis=0)
    assert np.abs(observed / expected - 1).max() < 6 * np.sqrt(2 / 600)
    mean = np.array(found).mean(axis=0)
    assert (np.abs(mean - SHARES.ravel()) < 6 * np.sqrt(expected / 600)).all()


@pytest.mark.parametrize("times", [1, pytest.param(6, marks=pytest.mark.long)])
def test_the_level_holds_for_repeating_devices(times: int) -> None:
    """300 independent tables: outside of 3 to 30 at .05 by chance in fewer than 1 of 1,000 runs."""
    rng = np.random.default_rng(8)
    product = np.outer(SHARES.sum(axis=1), SHARES.sum(axis=0))
    refused = ignored = 0
    for _ in range(300):
        counts = drawn_counts(product, SIDES, 1_000, times, rng)
        for repetition in {1.0, float(times)}:
            moments = Moments.of(counts, *SIDES, repetition)
            test = moments_independence(moments, fit_moments(moments).estimate, 0.05)
            if repetition == times:
                refused += test.rejected
            else:
                ignored += test.rejected
    assert 3 <= refused <= 30
    if times > 1:
        assert ignored > 30  # so the correction is needed, and this test can fail


def test_counters_have_the_place_that_reports_give_them() -> None:
    rng = random.Random(2)
    pairs = [linked_pair(FILE, "home_engine", ("a", "b"), TODAY, rng) for _ in range(40)]
    counts = linked_counts(aggregate_of(pairs))
    for cohort in range(4):
        mine = [pair for pair in pairs if pair[0].cohort == cohort]
        assert counts[cohort, 0, 0] == len(mine)
        assert counts[cohort, 3, 0] == sum(2 in set_bits(p[0].bits) for p in mine)
        assert counts[cohort, 0, 5] == sum(4 in set_bits(p[1].bits) for p in mine)
        both = [2 in set_bits(p[0].bits) and 4 in set_bits(p[1].bits) for p in mine]
        assert counts[cohort, 3, 5] == sum(both)


def test_counts_that_no_reports_can_give_are_refused() -> None:
    """Two bits that all reports have are together in all of them."""
    k1, k2 = THEME.shape
    m = THEME.num_cohorts
    full = {
        "reports_per_cohort": (9,) * m,
        "bit_counts": (((9,) * k1,) * m, ((9,) * k2,) * m),
        "pair_counts": ((9,) * (k1 * k2),) * m,
        "first_day": TODAY,
        "last_day": TODAY,
    }
    AssociationAggregate(association=THEME, **full)
    fewer = full | {"pair_counts": ((9,) * (k1 * k2 - 1) + (8,),) * m}
    with pytest.raises(AggregateError, match="fewer pairs of bits"):
        AssociationAggregate(association=THEME, **fewer)
    more = full | {"bit_counts": (((8,) * k1,) * m, ((9,) * k2,) * m)}
    with pytest.raises(AggregateError, match="more pairs of bits"):
        AssociationAggregate(association=THEME, **more)
