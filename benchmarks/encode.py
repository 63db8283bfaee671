"""One report encoded, against drawing each bit with `SystemRandom`, in the same run.

Both start from the same metric and value and end with a report's bytes. Ours is measured for values
that it never saw (the permanent response is derived each time) and, as a device really runs, for a
value that it has seen. Of a new value the note says what its parts take, each measured alone.

Usage: python benchmarks/encode.py [--rounds 15] [--records FILE]
"""

from __future__ import annotations

import argparse
import hmac
import os
import random
from collections.abc import Callable, Iterator
from datetime import date
from hashlib import shake_256
from statistics import median

from _run import Comparison, alternate, run, scaled

from client_sdk.randomisation.encoder import Encoder
from client_sdk.randomisation.metric_encoder import MetricEncoder
from client_sdk.randomisation.randomness import CoinPair, system_randomness
from rappor_core.hashing import bloom_bits
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.report import Report

DAY = date(2026, 11, 21)
SECRET = bytes(range(32))
RIVAL = "a coin a bit with SystemRandom"
NOISE = {"f=.5 p=.5 q=.75": ((0.5, 0.5, 0.75), 50.0), "f=.3 p=.35 q=.65": ((0.3, 0.35, 0.65), 20.0)}


def metric(prob_f: float, prob_p: float, prob_q: float) -> Metric:
    params = RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=32, prob_f=prob_f, prob_p=prob_p, prob_q=prob_q
    )
    return Metric(
        "homepage", "string", "d", "o@example.org", date(2099, 1, 1), params, 3, fallback="other"
    )


def per_bit(declared: Metric) -> Callable[[str], Report]:
    """The straightforward way, as google/rappor's Python client does it, for k = 128.

    The permanent response from HMAC-SHA256 of the bits, one byte a bit; for the instantaneous one a
    word of p-coins and one of q-coins, each bit drawn with `SystemRandom.random`.
    """
    cohort = MetricEncoder(declared, SECRET, system_randomness).cohort
    params_id, params = declared.params_id, declared.params
    fresh = random.SystemRandom()
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
        kept = permanent(declared.value_bits(value, cohort))
        report = (coins(params.prob_p) & ~kept) | (coins(params.prob_q) & kept)
        return Report(
            "homepage", params_id, cohort, DAY, report.to_bytes(params.report_bytes, "little")
        )

    return encode


def rivals(declared: Metric) -> dict[str, Callable[[], Report]]:
    encoder = Encoder({"homepage": declared}, SECRET)
    slow = per_bit(declared)
    numbers = iter(range(1 << 60))

    return {
        RIVAL: lambda: slow("example.org"),
        "a new value each time": lambda: encoder.encode("homepage", str(next(numbers)), DAY),
        "a value seen before": lambda: encoder.encode("homepage", "example.org", DAY),
    }


def parts(declared: Metric) -> dict[str, Callable[[], object]]:
    """What a report of a new value cannot do without, one by one."""
    params, value = declared.params, b"example.org"
    mechanism, k = params.mechanism, params.num_bits
    permanent = CoinPair(mechanism.p1, mechanism.q1, k)
    fresh = CoinPair(mechanism.p2, mechanism.q2, k)
    keyed, bits = bytes(124), bloom_bits(value, 0, params)  # as long as this metric's input
    words, fresh_words = bytes(permanent.num_bytes), bytes(fresh.num_bytes)

    def coins() -> None:
        permanent.toss(bits, words)
        fresh.toss(bits, fresh_words)

    return {
        "positions of the bits": lambda: bloom_bits(value, 0, params),
        "SHAKE-256": lambda: shake_256(keyed).digest(permanent.num_bytes),
        "os.urandom": lambda: os.urandom(fresh.num_bytes),
        "coins of both rounds": coins,
        "the Report": lambda: Report("homepage", declared.params_id, 0, DAY, words),
    }


def noted(declared: Metric, rounds: int) -> str:
    """The parts in words, each with its median."""
    actions = parts(declared)
    times = alternate(actions, rounds, dict.fromkeys(actions, 3_000))
    found = {name: median(scaled(times[name], 1e6)) for name in actions}
    each = ", ".join(f"{name} {took:.2f}" for name, took in found.items())
    return f"parts measured alone: {each}; together {sum(found.values()):.2f} us"


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Both kinds of values, for probabilities of few binary digits and of sixteen."""
    for title, (noise, target) in NOISE.items():
        declared = metric(*noise)
        actions, rounds = rivals(declared), 3 if chosen.small else chosen.rounds
        repeats = {name: 60 if name == RIVAL else 3_000 for name in actions}
        times = alternate(actions, rounds, repeats)
        for name in actions:
            if name != RIVAL:
                yield Comparison(
                    "", f"one report, {name}, k=128 h=2 {title}", "us", scaled(times[name], 1e6),
                    RIVAL, scaled(times[RIVAL], 1e6), target=target,
                    note=noted(declared, rounds) if "new" in name else "",
                )  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=15)


if __name__ == "__main__":
    run(__doc__, measure, options)
