"""Returning users and funnels: one ordinary category per period, whatever clocks and apps do."""

from typing import Any

import pytest

from client_sdk import Delivery, MemoryState, Recorder
from client_sdk.errors import StateChangedError, UnknownMetricError
from client_sdk.history import RETURN_CATEGORIES, HistoryRecorder
from client_sdk.storage.interface import HISTORY
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import day_of
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

DAY = 86_400.0
START = 20_496  # a Thursday
SURE: dict[str, Any] = {"epsilon_infinity": 18.0, "epsilon_one": 16.0}  # no lies by this seed
STEPS = ["opened", "cart", "paid"]
BAD = ["{", "[]", "3", '{"step": 1}', '{"of": "x", "last": "y"}', '{"of": "ID", "step": 5}']
TEXT = (
    declaration("returning", "category", categories=list(RETURN_CATEGORIES),
                max_memoized_values=5, **SURE)
    + declaration("funnel", "category", categories=STEPS, period="week",
                  max_memoized_values=3, **SURE)
    + declaration("crashed", "boolean", prob_f=0.5, prob_p=0.35, prob_q=0.65)
)  # fmt: skip


class Device:
    def __init__(self, text: str = TEXT) -> None:
        self.metrics = parse_metrics(text).metrics
        self.state = MemoryState(bytes(32))
        self.recorder = Recorder(self.metrics, self.state, randomness=FixedRandomness(1))
        self.history = HistoryRecorder(self.metrics, self.state, self.recorder)

    def at(self, day: float) -> float:
        return (START + day) * DAY + 3_600

    def sent(self) -> list[tuple[str, int, str]]:
        """Metric, day and answer of each new report."""
        reports = self.state.take_reports()
        return [
            (r.metric, day_of(r.day) - START,
             self.metrics[r.metric].categories[int.from_bytes(r.bits, "little").bit_length() - 1])
            for r in reports
        ]  # fmt: skip


def test_the_gap_since_the_last_day_of_use_is_reported_once_a_day() -> None:
    device = Device()
    days = [0, 0, 1, 3, 10, 18, 48, 79, 79, 78, 80]
    outcomes = [device.history.record_return("returning", device.at(day)) for day in days]
    assert outcomes == ["queued", None, *["queued"] * 6, None, None, "queued"]
    assert device.sent() == [
        ("returning", day, answer)
        for day, answer in [
            (0, "new"), (1, "next day"), (3, "2 to 7 days"), (10, "2 to 7 days"),
            (18, "8 to 30 days"), (48, "8 to 30 days"), (79, "more"), (80, "next day"),
        ]
    ]  # fmt: skip


def test_a_funnel_reports_its_last_step_when_the_week_is_over() -> None:
    device = Device()
    for day, step in [(0, "cart"), (1, "opened"), (4, "opened"), (5, "paid"), (6, "cart")]:
        assert device.history.record_step("funnel", step, device.at(day)) is None
    assert device.sent() == [("funnel", 3, "cart")]  # Sunday of the first week
    device.history.roll(device.at(10))
    assert device.sent() == []  # the week is not over
    device.history.roll(device.at(11))
    device.history.roll(device.at(12))
    assert device.sent() == [("funnel", 10, "paid")]
    assert device.history.record_step("funnel", "cart", device.at(12)) is None
    device.history.roll(device.at(60))
    assert device.sent() == []  # the collector no longer accepts that week


def test_a_clock_that_goes_back_reports_no_week_twice() -> None:
    device = Device()
    device.history.record_step("funnel", "paid", device.at(0))
    device.history.record_step("funnel", "cart", device.at(5))
    device.history.record_step("funnel", "opened", device.at(0))  # forgets that later week
    device.history.roll(device.at(5))
    assert device.sent() == [("funnel", 3, "paid")]
    assert device.state.counters() == {"full:funnel": 1}


def test_other_steps_are_another_funnel() -> None:
    device = Device()
    device.history.record_step("funnel", "cart", device.at(0))
    changed = Device(TEXT.replace('"opened"', '"begun"'))
    changed.state.put_note(HISTORY + "funnel", str(device.state.note(HISTORY + "funnel")))
    changed.history.roll(changed.at(5))
    assert changed.sent() == []


@pytest.mark.parametrize("text", BAD)
def test_a_damaged_note_is_counted_once_and_begun_anew(text) -> None:
    device = Device()
    for name in ("returning", "funnel"):
        note = text.replace("ID", device.metrics[name].params_id)
        device.state.put_note(HISTORY + name, note)
    device.history.roll(device.at(0))
    assert device.history.record_return("returning", device.at(0)) == "queued"
    assert device.history.record_step("funnel", "cart", device.at(0)) is None
    device.history.roll(device.at(7))
    assert [report[0] for report in device.sent()] == ["returning", "funnel"]
    assert device.state.counters()["history_damaged:returning"] == 1


def test_nothing_is_stored_after_another_process_withdrew_consent() -> None:
    device = Device()
    device.state.set_secret(None)
    with pytest.raises(StateChangedError):
        device.history.record_step("funnel", "paid", device.at(0))
    with pytest.raises(StateChangedError):
        device.history.record_return("returning", device.at(0))
    assert device.state.note(HISTORY + "funnel") is None
    assert device.state.note(HISTORY + "returning") is None


def test_wrong_metrics_and_steps_are_named() -> None:
    history = Device().history
    with pytest.raises(UnknownMetricError, match="'absent'"):
        history.record_return("absent", 0)
    with pytest.raises(ValueRefusedError, match="'funnel' needs categories"):
        history.record_return("funnel", 0)
    with pytest.raises(ValueRefusedError, match="'crashed' is of kind 'boolean', not 'category'"):
        history.record_step("crashed", "x", 0)
    with pytest.raises(ValueRefusedError, match="not one of"):
        history.record_step("funnel", "lost", 0)


def test_a_client_queues_both_and_a_withdrawal_wipes_them(open_client, clock) -> None:
    choices = {"metrics": parse_metrics(TEXT), "delivery": Delivery(mean_delay=86_400)}
    clock.now = START * DAY + 3_600
    client = open_client(**choices)
    assert client.record_return("returning")
    assert client.record_step("funnel", "cart")
    client.close()
    clock.now += 7 * DAY
    client = open_client(**choices)
    client._life.session._close_periods()
    assert client.record_return("returning")
    assert client.inspect()["queued"] == {"returning": 2, "funnel": 1}
    assert any(client.set_consent(False) for _ in range(50))  # a busy machine may delay it
    assert client.set_consent(True)
    assert client._life.session.state.note(HISTORY + "returning") is None
