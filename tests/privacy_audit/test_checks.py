"""What a check of a size finds, and what it says where it can find nothing."""

import gzip
import math
from datetime import date

import numpy as np
import pytest
from scipy import stats

from client_sdk.delivery.messages import make_body
from privacy_audit.black_box import bounds as limits
from privacy_audit.black_box import noise_sums as coins
from privacy_audit.black_box.apps import most_distinct
from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.checks import Check, bits_off, chance_off, exact, one_of, share, shift
from privacy_audit.black_box.freshness import at_least, equal_pairs
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.observations import Observations
from privacy_audit.black_box.requests import holds_reports_alone
from privacy_audit.black_box.scenarios import left_out, scenarios
from privacy_audit.report import DEFAULT_METRICS
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from rappor_core.wire.report import Report
from tests.privacy_audit.faults import METRICS


def test_three_in_n_is_found_95_percent() -> None:
    assert share(1_000, 0.0, 1e-6) == pytest.approx(1 - 0.05 ** (1 / 1_000), rel=0.03)
    assert share(1_000, 0.5, 1e-6) > share(100_000, 0.5, 1e-6) > 0
    assert share(3, 0.5, 1e-6) == share(0, 0.0, 1e-6) == 1.0


def test_a_shift_is_found_at_its_level() -> None:
    """5.0 standard errors for the level and 1.6 for the power."""
    assert shift(1.0, 1e-6) == pytest.approx(4.892 + 1.645, abs=0.01)


def test_a_powerless_check_is_not_run() -> None:
    for smallest in (None, one_of(0, "devices"), chance_off(0.5, 0)):
        check = exact("m", "a claim", "box", "", smallest)
        assert check.verdict(1e-6) == "not tested"
        assert exact("m", "a claim", "box", "wrong", smallest).verdict(1e-6) == "broken"
    held: Check = exact("m", "a claim", "box", "", one_of(30, "devices"))
    assert held.verdict(1e-6) == "held"
    assert held.finds(1e-6) == "a fault in 1 of 11 devices"


def test_the_fault_of_one_bit_is_named_beside_that_of_all() -> None:
    all_bits, _, one_bit = bits_off(0.5, np.full(128, 2_000), 1)(1e-4).partition(" and ")
    assert all_bits == "0.0056 of the chance of all bits"
    assert one_bit == "0.075 of one bit's chance"
    assert bits_off(0.5, np.zeros(4), 1)(1e-4) == ""


def test_equal_rows_are_counted_in_pairs() -> None:
    rng = np.random.default_rng(5)
    seeds = rng.integers(0, 1 << 16, 3_000)
    weak = np.stack([np.frombuffer(np.random.default_rng(s).bytes(16), np.uint8) for s in seeds])
    strong = np.frombuffer(rng.bytes(16 * 3_000), np.uint8).reshape(3_000, 16)
    assert equal_pairs(strong) == 0
    assert 30 < equal_pairs(weak) < 120  # 68.6 expected
    assert equal_pairs(np.zeros((4, 2), np.uint8)) == 6


def test_any_encoding_without_the_secret_shows() -> None:
    """An xored value among random bytes, in all files of one kind and none of the other."""
    rng = np.random.default_rng(6)

    def files(value: bytes) -> list[bytes]:
        return [rng.bytes(3_000) + value + rng.bytes(3_000) for _ in range(16)]

    hidden = [bytes(x ^ 0x5A for x in name) for name in (b"home", b"work")]
    assert most_distinct(files(hidden[0]), files(hidden[1]), 3)[0] < 1e-6
    assert most_distinct(files(b"same"), files(b"same"), 3)[0] > 1e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 4.0])
def test_a_bound_errs_as_seldom_as_stated(epsilon: float) -> None:
    """20,000 draws of a level of .05: more than .056 wrong comes once in 10,000 runs."""
    rng = np.random.default_rng(1)
    right = rng.binomial(400, 1 / (1 + math.exp(-epsilon)), 20_000)
    bounds = {int(n): limits.lower_bound(int(n), 400, 0.05) for n in np.unique(right)}
    wrong = np.mean([bounds[int(n)] > epsilon + 1e-12 for n in right])
    assert wrong < 0.056
    assert wrong > 0.02 or epsilon == 0.0  # and not idle


def test_the_bound_and_the_p_value_agree() -> None:
    for right in range(150, 200):
        low = limits.lower_bound(right, 200, 0.01)
        assert limits.claim_p_value(right, 200, low + 1e-6) > 0.01 - 1e-6
        if low > 0:
            assert limits.claim_p_value(right, 200, low - 1e-6) < 0.01 + 1e-6


def test_no_guess_bounds_nothing() -> None:
    assert limits.lower_bound(0, 0, 0.01) == 0.0
    assert limits.claim_p_value(0, 0, 1.0) == 1.0
    assert math.isinf(limits.detectable(0, 1.0, 0.01))
    assert math.isinf(limits.detectable(5, 6.0, 0.001))


def test_the_detectable_is_detected_95_percent() -> None:
    """2,000 draws: outside .935 to .97 comes once in 1,000 runs (counts are coarse)."""
    needed = limits.detectable(5_000, 1.0, 0.001)
    assert 1.05 < needed < 1.3
    rng = np.random.default_rng(2)
    right = rng.binomial(5_000, 1 / (1 + math.exp(-needed)), 2_000)
    caught = np.mean([limits.claim_p_value(int(n), 5_000, 1.0) < 0.001 for n in right])
    assert 0.935 < caught < 0.97


def test_randomized_response_is_found_and_not_overstated() -> None:
    """A feature that is right with e^1.5 odds: the bound of 40,000 guesses is within 10 %."""
    rng = np.random.default_rng(3)
    world = rng.integers(0, 2, 40_000)
    kept = rng.random(40_000) < 1 / (1 + math.exp(-1.5))
    shown = np.where(kept, world, 1 - world)
    noise = rng.normal(size=40_000)
    table = np.stack([1.0 - 2 * shown, noise, noise], axis=1).astype(np.float32)
    found = attack(table, world, 1.5, 1e-4, 0.25)
    assert 1.35 < found.bound <= 1.5
    assert found.p_value > 1e-4
    worse = attack(table, world, 1.2, 1e-4, 0.25)
    assert worse.p_value < 1e-10


def test_a_small_crowd_is_not_accused_often() -> None:
    """10,000 crowds of 12 at a level of .001: more than .0021 comes once in 1,000 runs."""
    params = load_metrics(DEFAULT_METRICS).metrics["homepage"].params
    crowds = np.random.default_rng(4).normal(size=(10_000, 12))
    means, errors = crowds.mean(axis=1), crowds.std(axis=1) / math.sqrt(12)
    wrong = np.mean(
        [limits.student_p_value(t * math.sqrt(11 / 12), 12) < 0.001 for t in means / errors]
    )
    assert wrong < 0.0022
    crowd = crowds[0] + 4 * crowds[0].std() / math.sqrt(12) - crowds[0].mean()
    sums = coins.NoiseSums(4, {"excess": np.array([12, crowd.sum(), (crowd**2).sum()])})
    (check,) = noise_checks("homepage", params, sums, "installed")
    assert check.p_value == pytest.approx(limits.student_p_value(4.0, 12))
    assert check.p_value > 0.002  # 6e-5 by the normal law


def test_few_seldom_set_bits_look_independent() -> None:
    """26 devices, both bits set in 4 of them by chance: the normal law would say 1e-8."""
    share, number = 0.12, 26
    variance = number * (share * (1 - share)) ** 2
    products = 4 * (1 - share) ** 2
    z = products / variance**0.5
    assert 2 * stats.norm.sf(z) < 1e-6
    exact = float(stats.binom.sf(3, number, share**2))
    assert limits.bennett_p_value(z, variance, (1 - share) ** 2) > exact


@pytest.mark.parametrize("kind", [np.uint64, np.uint8, np.int64])
def test_no_count_is_as_likely_as_all(kind: type) -> None:
    p_values = limits.two_sided(np.array([0, 12], dtype=kind), np.full(2, 12), 0.5)
    assert p_values.tolist() == pytest.approx([2 / 4096, 2 / 4096])


@pytest.mark.parametrize("name", ["usual_place", "startup", "commute"])
def test_what_is_reported_later_has_its_encoder_audited(name: str) -> None:
    metric = load_metrics(DEFAULT_METRICS).parts(name)[0]
    assert {one.part for one in scenarios(metric)} == {"encoder"}
    (text,) = left_out(metric)
    assert text == "only its encoder was audited: a device reports it when a period ends"


def test_silent_periods_are_named() -> None:
    plain = METRICS.replace('no_data = "none"\n', "")
    said = "silent periods were not audited: the protocol has none"
    assert said in list(left_out(parse_metrics(METRICS).declared[0]))
    assert list(left_out(parse_metrics(plain).declared[0])) == []


def test_no_value_past_the_cap_keeps_bits() -> None:
    small = METRICS.replace("num_bits = 128", "num_bits = 16").replace(
        "num_hashes = 2", "num_hashes = 1"
    )
    crowded = small.replace("num_cohorts = 16", "num_cohorts = 128")
    assert "values past the cap" in " ".join(left_out(parse_metrics(crowded).declared[0]))
    for text in (METRICS, small):
        metric = parse_metrics(text).declared[0]
        (one,) = (s for s in scenarios(metric) if s.claim == 0 and s.part == "device")
        recorded = {value for _, value in one.worlds[0]} - {one.values[0]}
        for cohort in range(metric.params.num_cohorts):
            taken = {metric.value_bits(value, cohort) for value in (*recorded, "other", "none")}
            assert not taken & {metric.value_bits(value, cohort) for value in one.values[:2]}


FILE = parse_metrics(METRICS)
METRIC = FILE.declared[0]
NUMBER = 20_000
SYMBOLS = RapporParams(
    num_bits=4, num_hashes=1, num_cohorts=1, encoding="symbol",
    mechanism=TwoRoundMechanism(p1=58_000, q1=2_512, p2=52_000, q2=4_512),
)  # fmt: skip
ONES = "no report has too few or too many ones"


def sums(bare: int = 0, permanent: int = 0) -> coins.NoiseSums:
    """20,000 reports, the first of which left without noise, or with that of one round."""
    rng, params = np.random.default_rng(1), METRIC.params
    held = np.zeros((NUMBER, params.num_bits), dtype=np.uint8)
    held[:, [3, 70]] = 1
    shown = (rng.random(held.shape) < np.where(held, params.q_star, params.p_star)).astype(np.uint8)
    m = params.mechanism
    kept = rng.random(held.shape) < np.where(held, m.p1, m.q1) / 2**16
    shown[:permanent] = kept[:permanent]
    shown[:bare] = held[:bare]
    rest = np.zeros(NUMBER, dtype=np.int64)
    seen = Observations(shown[:, None], rest + 1, np.stack([held] * 3), rest, rest, 0)
    return coins.noise_sums(params, seen)


@pytest.mark.parametrize(("bare", "permanent"), [(1, 0), (0, 1)])
def test_one_report_of_many_without_noise_is_enough(bare: int, permanent: int) -> None:
    (found,) = (c for c in noise_checks("m", METRIC.params, sums(bare, permanent), "encoder")
                if c.what == ONES)  # fmt: skip
    assert found.p_value < 1e-5
    others = [c for c in noise_checks("m", METRIC.params, sums(bare, permanent), "encoder")
              if c.what.startswith(("q*", "p*", "the noise"))]  # fmt: skip
    assert min(c.p_value for c in others) > 1e-4  # what did not see it


def test_honest_reports_have_no_extreme_among_them() -> None:
    both = sums() + sums()
    (found,) = (c for c in noise_checks("m", METRIC.params, both, "encoder")
                if c.what == ONES)  # fmt: skip
    assert found.p_value > 0.01


def test_a_body_holds_reports_and_zeros_alone() -> None:
    report = Report(METRIC.name, METRIC.params_id, 3, date(2026, 11, 1), bytes(16))
    body = make_body(bytes(16), [report], pad_to=256)
    assert len(body) == 256
    assert holds_reports_alone(body)
    assert holds_reports_alone(make_body(bytes(16), [report]))
    marked = body[:40] + b"\x01" + body[41:]
    assert not holds_reports_alone(marked)
    assert not holds_reports_alone(body + b"device 7")
    assert not holds_reports_alone(body[:4] + b"\x67" + body[5:])  # a time
    for other in (gzip.compress(b"x"), b"{}", b"", body[:100]):
        assert not holds_reports_alone(other)


@pytest.mark.parametrize("encoding", ["bloom", "symbol"])
def test_two_metrics_noise_keeps_its_bound(encoding: str) -> None:
    """4,000 crowds of 24: more than 240 honest ones with p < .05 in fewer than 1 of 400 seeds."""
    params = METRIC.params if encoding == "bloom" else SYMBOLS
    rng, k = np.random.default_rng(4), params.num_bits
    one, zero = coins.chances(params, permanent=False)

    def drawn(devices: int) -> tuple[np.ndarray, np.ndarray]:
        """Residuals of reports of devices that hold the first bit, and their variances."""
        held = np.zeros((devices, k), dtype=np.uint8)
        held[:, 0] = 1
        if encoding == "bloom":
            shown = (rng.random((devices, k)) < np.where(held == 1, one, zero)).astype(np.uint8)
        else:
            shown = np.eye(k, dtype=np.uint8)[rng.choice(k, devices, p=[one, *[zero] * (k - 1)])]
        return coins.residuals(params, shown, held, permanent=False)

    def p_value(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> float:
        return coins.product_test(params, (*first,), (*second,), permanent=False)[1]

    alarms = sum(p_value(drawn(24), drawn(24)) < 0.05 for _ in range(4_000))
    assert alarms <= 240
    assert max(p_value(one, one) for one in (drawn(100) for _ in range(20))) < 1e-3


def test_no_two_metrics_term_exceeds_its_bound() -> None:
    """All that two reports of symbols can show and hold; for bits, all four of one."""
    every = np.eye(SYMBOLS.num_bits, dtype=np.uint8)
    shown, held = (np.repeat(every, 4, axis=0), np.tile(every, (4, 1)))
    off = coins.residuals(SYMBOLS, shown, held, permanent=False)[0]
    largest = np.abs(off @ off.T).max()
    bound = coins.largest_product(SYMBOLS, permanent=False)
    assert 0.5 * bound < largest <= bound
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.uint8)
    alone = coins.residuals(METRIC.params, bits[:, :1], bits[:, 1:], permanent=False)[0]
    bound = coins.largest_product(METRIC.params, permanent=False)
    assert bound == pytest.approx(np.abs(alone).max() ** 2)


def test_equal_likely_pairs_do_not_look_repeated() -> None:
    """2,000 honest crowds: more than 10 with p < .001 in fewer than 1 of 100,000 seeds."""
    rng, number, bits, one = np.random.default_rng(7), 600, 12, 0.85
    alike, triples = ((one**n + (1 - one) ** n) ** bits for n in (2, 3))
    found = [
        equal_pairs(np.packbits(rng.random((number, bits)) < one, axis=1)) for _ in range(2_000)
    ]
    assert sum(at_least(pairs, number, alike, triples) < 1e-3 for pairs in found) <= 10
    mean = number * (number - 1) / 2 * alike
    assert sum(pairs > mean + 4 * mean**0.5 for pairs in found) > 200
    assert at_least(round(2 * mean), number, alike, triples) < 1e-6
