"""Every output of every life in a small world: what the answers of a flow can tell, exactly."""

import math
import random
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import product

import pytest

from client_sdk.location.dwell_time import moment_of
from client_sdk.location.recorder import visits_of
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import day_of
from rappor_core.metrics.flow import QUESTIONS, question_of
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.test_flows import NIGHT, START, WORK, declared, secrets

SMALL = {
    "box": "[0, 0, 1, 2]",
    "rows": "1",
    "columns": "2",
    "levels": "[0, 1]",
    "bands_km": "[60]",
    "num_symbols": "5",
    "max_gap_minutes": "30",
}
PLACES: list[tuple[float, float] | None] = [(0.25, 0.25), (0.75, 1.75), (9.0, 9.0), None]


Life = Sequence[Sequence[tuple[float, float] | None]]  # of each day, the two places


def outputs(
    file: MetricsFile, secret: bytes, lives: Iterable[Life]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return, for each life, the cohort, and the (day, true symbol) of each answer."""
    device = MetricEncoder(file.metrics["commute"], secret, FixedRandomness())
    found = []
    for lived in lives:
        sent: list[tuple[int, ...]] = []

        def send(_: str, value: str, day: int, sent: list[tuple[int, ...]] = sent) -> None:
            symbol = device.value_bits(value).bit_length() - 1
            sent.append((day - day_of(START), symbol))

        visits = visits_of(file.parts("commute"), secret, send)
        for day, pair in enumerate(lived):
            visits.look(moment_of(START + timedelta(day)))
            for hour, place in zip((NIGHT, WORK), pair, strict=True):
                if place is not None:
                    visits.fix(*place, moment_of(START + timedelta(day, hours=hour)))
        visits.look(moment_of(START + timedelta(len(lived))))
        found.append((device.cohort, tuple(x for row in sent for x in row)))
    return found


def worst(file: MetricsFile, days: int) -> dict[str, float]:
    """By question: the largest log ratio of the chance of all times and symbols of two lives."""
    mechanism, most = file.metrics["commute"].params.mechanism, dict.fromkeys(QUESTIONS, 0.0)
    secrets_of = one_secret_a_cohort(file)
    if days > 2:  # of many lives: one device a question, whose hash is no part of the bound
        cohorts = [MetricEncoder(file.metrics["commute"], one, FixedRandomness()).cohort
                   for one in secrets_of]  # fmt: skip
        by_question = dict(zip(map(question_of, cohorts), secrets_of, strict=True))
        assert by_question.keys() == most.keys()
        secrets_of = list(by_question.values())
    for secret in secrets_of:
        rows = outputs(file, secret, product(product(PLACES, repeat=2), repeat=days))
        lives, question = {row for _, row in rows}, question_of(rows[0][0])
        times = {row[::2] for row in lives}
        assert len(times) == 1  # when it answers depends on no life
        symbols = {row[1::2] for row in lives}
        for one, two in product(symbols, repeat=2):
            # the worst output shows each true symbol of the one life where the two differ
            differing = sum(a != b for a, b in zip(one, two, strict=True))
            ratio = differing * math.log(mechanism.p2 / mechanism.q2)
            assert ratio == pytest.approx(_enumerated(one, two, file), abs=1e-9)
            most[question] = max(most[question], ratio)
    return most


def _enumerated(one: tuple[int, ...], two: tuple[int, ...], file: MetricsFile) -> float:
    """By every output of so many answers, one by one."""
    params = file.metrics["commute"].params
    kept, lie = params.mechanism.p2 / 2**16, params.mechanism.q2 / 2**16
    total, most = 0.0, 0.0
    for shown in product(range(params.num_bits), repeat=len(one)):
        chances = [
            math.prod(kept if a == b else lie for a, b in zip(shown, true, strict=True))
            for true in (one, two)
        ]
        total += chances[0]
        most = max(most, math.log(chances[0] / chances[1]))
    assert total == pytest.approx(1.0, abs=1e-12)
    return most


def one_secret_a_cohort(file: MetricsFile) -> list[bytes]:
    metric, found, rng = file.metrics["commute"], dict[int, bytes](), random.Random(3)
    while len(found) < 10:
        secret = rng.randbytes(32)
        found.setdefault(MetricEncoder(metric, secret, FixedRandomness()).cohort, secret)
    return list(found.values())


@pytest.mark.parametrize(
    ("changes", "days", "answers"),
    [
        ({}, 1, 1),
        ({"spread": "2"}, 2, 1),
        pytest.param({"to": '"night 22-6"', "lag": "1"}, 2, 1, marks=pytest.mark.long),
        pytest.param({"mode": '"window"', "window": "2", "max_reports": "1"}, 3, 1,
                     marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_every_output_of_every_life_keeps_the_bound(changes, days, answers) -> None:
    file = declared(**{**SMALL, **changes})
    metric = file.metrics["commute"]
    most = worst(file, days)
    bound = answers * metric.epsilon_one
    assert metric.lifetime_epsilon == pytest.approx(bound)
    for question, ratio in most.items():
        assert ratio == pytest.approx(bound), question


def test_two_windows_cost_twice_epsilon_and_no_more() -> None:
    file = declared(**SMALL, mode='"window"', window="2", max_reports="2")
    metric = file.metrics["commute"]
    secret = next(
        secret
        for secret in secrets(500)
        if question_of(MetricEncoder(metric, secret, FixedRandomness()).cohort) == "distance"
    )
    pairs = [(PLACES[0], PLACES[0]), (PLACES[0], PLACES[1]), (None, PLACES[0])]
    lives = [[*lived, *[(None, None)] * 2] for lived in product(pairs, repeat=5)]
    seen = {row[1::2] for _, row in outputs(file, secret, lives)}
    assert {len(symbols) for symbols in seen} == {2}
    most = max(_enumerated(one, two, file) for one, two in product(seen, repeat=2))
    assert most == pytest.approx(metric.lifetime_epsilon) == pytest.approx(2 * metric.epsilon_one)
