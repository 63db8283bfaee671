"""The encoding of one report, compared with drawing each bit with `SystemRandom`.

Both start from the same metric and value and end with a report's bytes. This project's encoder is
measured for new values (whose permanent response must be derived) and for a value seen before."""

import hmac
import random
from collections.abc import Callable
from datetime import date
from itertools import count
from time import process_time

import pytest

from benchmarks.conftest import OURS, Comparison
from client_sdk.randomization.key_derivation import system_randomness
from client_sdk.randomization.metric_encoder import Encoder, MetricEncoder
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.report import Report

DAY, SECRET = date(2026, 11, 21), bytes(range(32))
PER_BIT = "a coin a bit with SystemRandom"
NEW, SEEN = "a new value each time", "a value seen before"
NOISES = [((0.5, 0.5, 0.75), 50.0), ((0.3, 0.35, 0.65), 20.0)]


def per_bit(declared: Metric) -> Callable[[str], Report]:
    """Return the straightforward encoder, like google/rappor's Python client, for k = 128.

    The permanent response uses HMAC-SHA256 of the bits, one byte per bit. The instantaneous one
    uses a word of p-coins and one of q-coins, each bit drawn with `SystemRandom.random`."""
    cohort = MetricEncoder(declared, SECRET, system_randomness).cohort
    params, fresh = declared.params, random.SystemRandom()
    places = range(params.num_bits)

    def coins(probability: float) -> int:
        word = 0
        for place in places:
            word |= (fresh.random() < probability) << place
        return word

    def permanent(bits: int) -> int:
        key_stream = b"".join(
            hmac.digest(SECRET, part.to_bytes(1, "big") + bits.to_bytes(16, "big"), "sha256")
            for part in range(4)
        )
        lies = uniform = 0
        for place in places:
            byte = key_stream[place]
            uniform |= (byte & 1) << place
            lies |= (byte >> 1 < params.prob_f * 128) << place
        return (bits & ~lies) | (uniform & lies)

    def encode(value: str) -> Report:
        memo = permanent(declared.value_bits(value, cohort))
        report = (coins(params.prob_p) & ~memo) | (coins(params.prob_q) & memo)
        whole = report.to_bytes(params.report_bytes, "little")
        return Report("homepage", declared.params_id, cohort, DAY, whole)

    return encode


@pytest.mark.benchmark(timer=process_time)
@pytest.mark.parametrize(("noise", "target"), NOISES)
@pytest.mark.parametrize("who", [OURS, PER_BIT])
@pytest.mark.parametrize("value", [NEW, SEEN])
def bench_encode(
    comparison: Comparison, noise: tuple[float, float, float], target: float, who: str, value: str
) -> None:
    """Measure the encoding of one report of 128 bits."""
    f, p, q = noise
    params = RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=32, prob_f=f, prob_p=p, prob_q=q
    )
    metric = Metric(
        "homepage", "string", "d", "o@example.org", date(2099, 1, 1), params, 3, fallback="other"
    )
    encoder, slow, numbers = Encoder({"homepage": metric}, SECRET), per_bit(metric), count()
    actions: dict[str, Callable[[], Report]] = {
        NEW: lambda: encoder.encode("homepage", str(next(numbers)), DAY),
        SEEN: lambda: encoder.encode("homepage", "example.org", DAY),
    }
    comparison.name(f"one report, {value}, k=128 h=2 f={f:g} p={p:g} q={q:g}", who, target=target)
    if who == OURS:
        comparison.times(actions[value], rounds=15, iterations=3_000)
    else:
        comparison.times(lambda: slow("example.org"), rounds=15, iterations=60)
