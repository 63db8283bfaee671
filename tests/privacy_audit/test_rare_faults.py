"""What shows in one report, or one body of many: the checks alone, at fixed seeds."""

import gzip
from datetime import date

import numpy as np
import pytest
from scipy import stats

from client_sdk.delivery.messages import make_body
from privacy_audit.black_box.freshness import at_least, equal_pairs
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.noise_sums import (
    NoiseSums,
    chances,
    largest_product,
    noise_sums,
    product_test,
    residuals,
)
from privacy_audit.black_box.observations import Observations
from privacy_audit.black_box.requests import holds_reports_alone
from privacy_audit.black_box.scenarios import GAPS, scenarios, spaced_days
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from rappor_core.wire.report import Report
from tests.privacy_audit.faults import METRICS

FILE = parse_metrics(METRICS)
METRIC = FILE.declared[0]
NUMBER = 20_000
SYMBOLS = RapporParams(
    num_bits=4, num_hashes=1, num_cohorts=1, encoding="symbol",
    mechanism=TwoRoundMechanism(p1=58_000, q1=2_512, p2=52_000, q2=4_512),
)  # fmt: skip
ONES = "no report has too few or too many ones"


def sums(bare: int = 0, permanent: int = 0) -> NoiseSums:
    """Of 20,000 reports, the first of which left without noise, or with that of one round."""
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
    return noise_sums(params, seen)


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


def test_reports_of_a_life_are_months_apart() -> None:
    assert np.diff(spaced_days(METRIC, 7)).tolist() == [GAPS["day"]] * 6
    ledger = next(s for s in scenarios(METRIC) if s.name == "ledger")
    assert ledger.noise
    assert [day for day, _ in ledger.worlds[0]] == sorted(2 * spaced_days(METRIC, 7))


@pytest.mark.parametrize("encoding", ["bloom", "symbol"])
def test_two_metrics_noise_keeps_its_bound(encoding: str) -> None:
    """4,000 crowds of 24 devices: of an honest one p < .05 in .05 at most; shared coins are seen.

    More than 240 of 4,000 by chance, were the rate .05, in fewer than 1 of 400 seeds.
    """
    params = METRIC.params if encoding == "bloom" else SYMBOLS
    rng, k = np.random.default_rng(4), params.num_bits
    one, zero = chances(params, permanent=False)

    def drawn(devices: int) -> tuple[np.ndarray, np.ndarray]:
        """Residuals of reports of devices that hold the first bit, and their variances."""
        held = np.zeros((devices, k), dtype=np.uint8)
        held[:, 0] = 1
        if encoding == "bloom":
            shown = (rng.random((devices, k)) < np.where(held == 1, one, zero)).astype(np.uint8)
        else:
            shown = np.eye(k, dtype=np.uint8)[rng.choice(k, devices, p=[one, *[zero] * (k - 1)])]
        return residuals(params, shown, held, permanent=False)

    def p_value(first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> float:
        return product_test(params, (*first,), (*second,), permanent=False)[1]

    alarms = sum(p_value(drawn(24), drawn(24)) < 0.05 for _ in range(4_000))
    assert alarms <= 240
    assert max(p_value(one, one) for one in (drawn(100) for _ in range(20))) < 1e-3


@pytest.mark.long
def test_seldom_set_permanent_bits_look_independent() -> None:
    """20,000 honest crowds of 125 devices, 8 bits of .047: p < 5e-4 in 5e-4 of them at most.

    More than 25 by chance, were the rate that, in fewer than 1 of 10,000 seeds; by the normal law
    there are more.
    """
    rare = RapporParams(
        num_bits=8, num_hashes=1, num_cohorts=1, mechanism=TwoRoundMechanism(62456, 3080, 65536, 0)
    )
    rng, held = np.random.default_rng(6), np.zeros((125, 8), dtype=np.uint8)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        shown = (rng.random((125, 8)) < 3080 / 65536).astype(np.uint8)
        return residuals(rare, shown, held, permanent=True)

    found = [product_test(rare, drawn(), drawn(), permanent=True) for _ in range(20_000)]
    assert sum(p_value < 5e-4 for _, p_value in found) <= 25
    assert sum(2 * stats.norm.sf(abs(z)) < 5e-4 for z, _ in found) > 30
    same = drawn()
    assert product_test(rare, same, same, permanent=True)[1] < 1e-9


def test_no_two_metrics_term_exceeds_its_bound() -> None:
    """Of symbols, all that two reports can show and hold; of bits, all four of one."""
    every = np.eye(SYMBOLS.num_bits, dtype=np.uint8)
    shown, held = (np.repeat(every, 4, axis=0), np.tile(every, (4, 1)))
    off = residuals(SYMBOLS, shown, held, permanent=False)[0]
    largest = np.abs(off @ off.T).max()
    assert (
        0.5 * largest_product(SYMBOLS, permanent=False)
        < largest
        <= largest_product(SYMBOLS, permanent=False)
    )
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.uint8)
    alone = residuals(METRIC.params, bits[:, :1], bits[:, 1:], permanent=False)[0]
    assert largest_product(METRIC.params, permanent=False) == pytest.approx(
        np.abs(alone).max() ** 2
    )


def test_equal_likely_pairs_do_not_look_repeated() -> None:
    """2,000 honest crowds of reports with 12 bits of .85: p < .001 in .001 of them at most.

    More than 10 by chance, were the rate that, in fewer than 1 of 100,000 seeds; a Poisson law
    calls hundreds of them broken.
    """
    rng, number, bits, one = np.random.default_rng(7), 600, 12, 0.85
    alike, triples = ((one**n + (1 - one) ** n) ** bits for n in (2, 3))
    found = [
        equal_pairs(np.packbits(rng.random((number, bits)) < one, axis=1)) for _ in range(2_000)
    ]
    assert sum(at_least(pairs, number, alike, triples) < 1e-3 for pairs in found) <= 10
    mean = number * (number - 1) / 2 * alike
    assert sum(pairs > mean + 4 * mean**0.5 for pairs in found) > 200
    assert at_least(round(2 * mean), number, alike, triples) < 1e-6
