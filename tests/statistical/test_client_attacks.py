"""Attackers who see more than the collector stores: the figures of docs/privacy.md.

Seeds are fixed. Each test states the result of chance alone, and has a counterpart without the
protection, in which the attack must succeed: a weak attack proves nothing.
"""

import math
from collections.abc import Callable
from datetime import date

import pytest

from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.testing import FixedRandomness
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

pytestmark = pytest.mark.statistical

NUM_BITS = 32
REPORTS = 1_000  # of one value by one device, all linked by the attacker
DEVICES = 400
VALUES = [f"https://example.org/{number}" for number in range(16)]


def metric(name: str = "homepage", prob_f: float = 0.75, num_cohorts: int = 1) -> Metric:
    coins = {"prob_f": prob_f, "prob_p": 0.5, "prob_q": 0.75}
    params = RapporParams.rappor(num_bits=NUM_BITS, num_hashes=2, num_cohorts=num_cohorts, **coins)
    limit = None if prob_f else 10_000
    return Metric(
        name, "string", "d", "o@example.org", date(2099, 1, 1), params, 3,
        fallback="other", max_reports=limit,
    )  # fmt: skip


def averaged(device: MetricEncoder, value: str, reports: int = REPORTS) -> int:
    """The attacker's permanent bits: those set in more than (p + q) / 2 of the reports."""
    bits = device.value_bits(value)
    ones = [0] * NUM_BITS
    for _ in range(reports):
        report = int.from_bytes(device.report_bits(bits), "little")
        for place in range(NUM_BITS):
            ones[place] += report >> place & 1
    middle = (device.metric.params.prob_p + device.metric.params.prob_q) / 2
    return sum((count > middle * reports) << place for place, count in enumerate(ones))


def best_guess(device: MetricEncoder, permanent_bits: int) -> str:
    """The value whose Bloom bits are the likeliest, given permanent bits (uniform prior)."""
    p1 = device.metric.params.mechanism.p1 / 65_536
    q1 = device.metric.params.mechanism.q1 / 65_536

    def log_likelihood(value: str) -> float:
        set_bits = device.value_bits(value)
        total = 0.0
        for place in range(NUM_BITS):
            chance = p1 if set_bits >> place & 1 else q1
            total += math.log(max(chance if permanent_bits >> place & 1 else 1 - chance, 1e-12))
        return total

    return max(VALUES, key=log_likelihood)


def test_averaging_recovers_the_permanent_response_and_no_more() -> None:
    """1,000 linked reports give the permanent bits exactly, and the value as rarely as they do.

    epsilon_infinity = 2.04 bounds the odds: with 16 equally likely values no attacker can be right
    more often than e^2.04 / (e^2.04 + 15) = .34. Chance is .06.
    """
    recovered = right = 0
    declared = metric()
    for number in range(DEVICES):
        secret = number.to_bytes(32, "big")
        device = MetricEncoder(declared, secret, FixedRandomness(number))
        value = VALUES[number % len(VALUES)]
        permanent = device.permanent_bits(device.value_bits(value))
        if number < 40:  # the averaging itself is slow: the rest is given the permanent bits
            recovered += averaged(device, value) == permanent
        right += best_guess(device, permanent) == value
    bound = math.exp(declared.params.epsilon_infinity)
    most = bound / (bound + len(VALUES) - 1)
    error = math.sqrt(most * (1 - most) / DEVICES)
    assert recovered >= 38
    assert right / DEVICES < most + 3 * error
    assert right / DEVICES > 1 / len(VALUES)  # better than chance: a promise of epsilon, not of 0


def test_without_a_permanent_round_averaging_recovers_the_value() -> None:
    """The counterpart: f = 0, and the same attack is right nearly always."""
    declared = metric(prob_f=0.0)
    right = 0
    for number in range(40):
        device = MetricEncoder(declared, number.to_bytes(32, "big"), FixedRandomness(number))
        value = VALUES[number % len(VALUES)]
        right += best_guess(device, averaged(device, value)) == value
    assert right >= 38


def linked(features: Callable[[bytes, str], tuple[int, int]]) -> float:
    """How often the best partner among DEVICES is the right one, for features of two metrics.

    features: (cohort, permanent bits) of a device for a metric by name. The attacker pairs reports
    by equal cohort, then by the number of equal permanent bits; the collector stores only counts.
    """
    secrets = [number.to_bytes(32, "big") for number in range(DEVICES)]
    ones = [features(secret, "homepage") for secret in secrets]
    others = [features(secret, "search") for secret in secrets]
    right = 0.0
    for number, (cohort, bits) in enumerate(ones):
        scores = [
            (cohort == other_cohort, NUM_BITS - (bits ^ other_bits).bit_count())
            for other_cohort, other_bits in others
        ]
        best = max(scores)
        if scores[number] == best:
            right += 1 / scores.count(best)
    return right / DEVICES


def test_two_metrics_are_linked_by_chance_alone() -> None:
    """Chance is 1 / 400; 400 tries at that rate give 5 or fewer right with probability .9994."""
    metrics = {name: metric(name, num_cohorts=16) for name in ("homepage", "search")}

    def features(secret: bytes, name: str) -> tuple[int, int]:
        device = MetricEncoder(metrics[name], secret, FixedRandomness())
        return device.cohort, device.permanent_bits(device.value_bits("same for all"))

    assert linked(features) <= 5 / DEVICES


def test_a_shared_secret_would_link_them() -> None:
    """The counterpart: the same cohort and responses for both metrics, and all are linked."""
    declared = metric("homepage", num_cohorts=16)

    def features(secret: bytes, _: str) -> tuple[int, int]:
        device = MetricEncoder(declared, secret, FixedRandomness())
        return device.cohort, device.permanent_bits(device.value_bits("same for all"))

    assert linked(features) >= 0.9
