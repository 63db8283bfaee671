"""A packed fleet has the law of the SDK: each report, the reports of one device, and the sums."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from scipy import stats

from client_sdk import Encoder
from client_sdk.testing import FixedRandomness
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from simulations.populations.packed_fleet import PackedFleet, draw_packed_fleet, packed_values
from simulations.populations.packed_sums import sum_words

FALSE_ALARMS = 1e-4  # of each test, were the seeds other ones
NOISE = [
    (0.5, 0.5, 0.75), (0.3, 0.35, 0.65), (0.0, 0.25, 0.75), (0.7, 0.9, 0.1), (0.123, 0.0, 0.6),
]  # fmt: skip
VALUES, SHARES = ["a", "b", "c"], np.array([0.6, 0.3, 0.1])
DAY = date(2026, 11, 21)


def params_of(noise: tuple[float, float, float], bits: int = 3) -> RapporParams:
    f, p, q = noise
    return RapporParams.rappor(
        num_bits=bits, num_hashes=1, num_cohorts=2, prob_f=f, prob_p=p, prob_q=q
    )


def law_of_two_reports(params: RapporParams, bits: int) -> np.ndarray:
    """P(both reports of a device), over the 64 pairs of patterns of 3 bits, enumerated."""
    m, k, scale = params.mechanism, params.num_bits, 1 << 16
    joint = np.ones(1)
    for bit in reversed(range(k)):
        keep = (m.p1 if bits >> bit & 1 else m.q1) / scale
        table = np.zeros((2, 2))
        for kept, weight in ((1, keep), (0, 1 - keep)):
            show = (m.p2 if kept else m.q2) / scale
            one = np.array([1 - show, show])
            table += weight * np.outer(one, one)
        joint = np.multiply.outer(joint, table)
    axes = [1 + 2 * i for i in range(k)] + [2 + 2 * i for i in range(k)]
    return joint.transpose([0, *axes]).reshape(-1)


def agrees(counts: np.ndarray, law: np.ndarray) -> bool:
    """A chi-square test; patterns that the law forbids must not be there."""
    if counts[law == 0].any():
        return False
    seen, expected = counts[law > 0], law[law > 0] * counts.sum()
    return bool(stats.chisquare(seen, expected).pvalue > FALSE_ALARMS)


def pairs_of_fleet(params: RapporParams, number: int, value: int, key: int) -> np.ndarray:
    packed = packed_values(["v"], np.zeros(1, dtype=np.int64), 0, params)
    packed[0, 0] = value
    rows = PackedFleet(params, 2, key).encode(packed, np.array([number]), 0)[:, 0]
    return np.bincount((8 * rows[::2] + rows[1::2]).astype(np.int64), minlength=64)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("value", [0, 1, 5])
def test_two_reports_have_the_enumerated_law(noise: tuple[float, float, float], value: int) -> None:
    params = params_of(noise)
    assert agrees(pairs_of_fleet(params, 400_000, value, 77), law_of_two_reports(params, value))


def test_the_test_rejects_a_neighbour() -> None:
    """One unit of 2**-9 off in q, or a permanent response that is drawn again."""
    law = law_of_two_reports(params_of((0.5, 0.5, 0.75)), 5)
    near = params_of((0.5, 0.5, 0.75 + 2**-9))
    assert not agrees(pairs_of_fleet(near, 4_000_000, 5, 77), law)
    joint = law.reshape(8, 8)
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0)).reshape(-1)
    fleet = pairs_of_fleet(params_of((0.5, 0.5, 0.75)), 400_000, 5, 77)
    assert not agrees(fleet, apart)


@pytest.mark.slow
def test_the_sdk_has_the_same_law() -> None:
    """20,000 devices of the real encoder, two reports each, in one cohort's bits."""
    params = params_of((0.3, 0.35, 0.65))
    metric = Metric("m", "string", "d", "o@x.org", date(2099, 1, 1), params, 3, fallback="z")
    counts = {bits: np.zeros(64) for bits in (1, 2, 4)}
    source = FixedRandomness(1)
    for _ in range(20_000):
        encoder = Encoder({"m": metric}, source(32), source)
        one, two = (encoder.encode("m", "a", DAY) for _ in range(2))
        place = 8 * one.bits[0] + two.bits[0]
        counts[metric.value_bits("a", one.cohort)][place] += 1
    for bits, seen in counts.items():
        if seen.sum():
            assert agrees(seen, law_of_two_reports(params, bits))


@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.long), 5])
def test_sums_have_mean_and_variance_of_aggregates(each: int) -> None:
    """200 fleets of each kind: means within 4.5 errors, variances within 45 %."""
    params = params_of((0.5, 0.25, 0.75), bits=70)
    rng = np.random.default_rng(3)
    ours, drawn = (
        np.array([make(VALUES, SHARES, 2_000, params, rng, reports_each=each)[0].bit_counts
                  for _ in range(200)], dtype=float)
        for make in (draw_packed_fleet, draw_aggregate)
    )  # fmt: skip
    error = np.sqrt((ours.var(axis=0) + drawn.var(axis=0)) / 200)
    assert (np.abs(ours.mean(axis=0) - drawn.mean(axis=0)) < 4.5 * error).all()
    assert ours.var(axis=0).mean() == pytest.approx(drawn.var(axis=0).mean(), rel=0.1)


def test_devices_draw_the_same_however_work_is_split() -> None:
    params = params_of((0.3, 0.35, 0.65), bits=130)
    packed = packed_values(VALUES, np.arange(3), 1, params)
    fleet, holders = PackedFleet(params, 3, 99), np.array([40_000, 9, 5_000])
    rows = fleet.encode(packed, holders, 7)
    later = fleet.encode(packed, np.array([0, 4, 5_000]), 7 + 40_005)
    assert (rows[3 * 40_005 :] == later).all()
    bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :130]
    assert (fleet.count(packed, holders, 7) == bits.sum(axis=0)).all()
    threads = [
        draw_packed_fleet(VALUES, SHARES, 5_000, params, np.random.default_rng(1), 2, number)[0]
        for number in (1, 3)
    ]
    assert threads[0] == threads[1]
    assert sum(threads[0].reports_per_cohort) == 10_000


def test_symbols_are_refused() -> None:
    symbol = RapporParams(4, 1, 2, TwoRoundMechanism.symbols(4, 2.0, 1.0), "symbol")
    with pytest.raises(ValueError, match="draws bits"):
        PackedFleet(symbol, 1, 0)


@pytest.mark.parametrize("rows", [0, 1, 7, 31, 32, 33, 1_000, 2_111])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_sums_are_those_of_unpacked_bits(rows: int, words: int) -> None:
    packed = np.random.default_rng(rows).integers(0, 1 << 64, (rows, words), dtype=np.uint64)
    packed[: rows // 2] = ~np.uint64(0)
    bits = np.unpackbits(packed.view(np.uint8).reshape(rows, 8 * words), axis=1, bitorder="little")
    assert (sum_words(packed, 64 * words - 3) == bits.sum(axis=0)[: 64 * words - 3]).all()
