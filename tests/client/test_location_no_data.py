"""A location metric that declares `no_data`: a slot without a fix is told apart from `other`."""

from datetime import timedelta

import pytest

from client_sdk.location.dwell_time import moment_of
from rappor_core.metrics.metric import Metric
from tests.client.location_support import START, Phone, declared, values, visits_of

APART = 'no_data = "no_data"\n'


def test_no_trip_is_no_data_entering_is_other() -> None:
    visits, sent = visits_of(declared("memo", APART, "pairs = true\n"))
    visits.trip((1.5, 1.5), (50.0, 2.5), moment_of(START + timedelta(hours=10)))
    visits.roll(moment_of(START + timedelta(days=2)))
    assert values(sent, "day") == ["other", "no_data"]


@pytest.mark.parametrize("mode", ["window", "once"])
def test_a_seldom_asked_device_says_no_data(mode: str) -> None:
    visits, sent = visits_of(declared(mode, APART))
    visits.roll(moment_of(START))
    visits.roll(moment_of(START + timedelta(days=7)))
    assert sent
    assert {value for _, value, _ in sent} == {"no_data"}


def bits_sent(metric: Metric, phone: Phone, value: str) -> int:
    return phone.recorder.device(metric.name).value_bits(value)


def test_both_take_places_in_the_cap_first() -> None:
    """Of three places one is left for cells; the second cell is sent as `other`."""
    file = declared("memo", APART).metrics
    phone = Phone(
        declared(
            "memo",
            APART,
        ),
        3,
    )
    metric = file["density/day/0"]
    noon, seen = START + timedelta(hours=12), {}
    cells = {bits_sent(metric, phone, cell): cell for cell in metric.location.grid.cells(0)}  # type: ignore[union-attr]
    for value in ("other", "no_data"):
        cells.pop(bits_sent(metric, phone, value), None)
    for number, cell in enumerate(list(cells.values())[:3]):
        at = (noon + timedelta(days=number)).timestamp()
        seen[cell] = phone.recorder.record(metric.name, cell, at)
    at = (noon + timedelta(days=3)).timestamp()
    assert list(seen.values()) == ["queued", "queued_fallback", "queued_fallback"]
    assert phone.recorder.record(metric.name, "no_data", at) == "queued"
    assert len(phone.state.entries("density")) == 3


def test_nobody_but_the_visits_fills_its_periods() -> None:
    """`no_data` of a string metric is sent by the recorder for periods that took nothing."""
    phone = Phone(declared("memo", APART), 4)
    name = "density/day/0"
    assert phone.recorder.record(name, "0-1-1", START.timestamp()) == "queued"
    phone.collect()
    assert phone.recorder.fill_periods((START + timedelta(days=3)).timestamp()) == 0
    phone.collect()
    assert len(phone.reports) == 1
