"""One report encoded, against drawing each bit with `SystemRandom`, in the same run.

Both start from the same metric and value and end with a report's bytes. Ours is measured for values
that it never saw (the permanent response is derived each time) and, as a device really runs, for a
value that it has seen. Rounds of the rivals alternate; median and quartiles of the ratio.

Usage: python benchmarks/encode.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import hmac
import random
import statistics
import time
from collections.abc import Callable
from datetime import date

from client_sdk.randomisation.encoder import Encoder
from client_sdk.randomisation.metric_encoder import MetricEncoder
from client_sdk.randomisation.randomness import system_randomness
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.report import Report

DAY = date(2026, 11, 21)
SECRET = bytes(range(32))
REPEATS = {"per bit": 60, "ours": 3_000}
TARGETS = {"f=.5 p=.5 q=.75": 50.0, "f=.3 p=.35 q=.65": 20.0}


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
        "per bit": lambda: slow("example.org"),
        "ours, a new value each time": lambda: encoder.encode("homepage", str(next(numbers)), DAY),
        "ours, a value seen before": lambda: encoder.encode("homepage", "example.org", DAY),
    }


def microseconds(action: Callable[[], Report], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - start) / repeats * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    for title, probabilities in (
        ("f=.5 p=.5 q=.75", (0.5, 0.5, 0.75)),
        ("f=.3 p=.35 q=.65", (0.3, 0.35, 0.65)),
    ):
        runs = rivals(metric(*probabilities))
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, action in runs.items():
                repeats = REPEATS["per bit" if name == "per bit" else "ours"]
                times[name].append(microseconds(action, repeats))
        print(f"k=128 h=2 {title} (bar: {TARGETS[title]:.0f} times)")
        for name, measured in times.items():
            ratios = [a / b for a, b in zip(times["per bit"], measured, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(
                f"  {name:28} {statistics.median(measured):8.2f} us"
                f"   {middle:6.1f} times ({low:.1f} to {high:.1f})"
            )


if __name__ == "__main__":
    main()
