"""Limits by period: whatever the clock does, and whatever unit a later version declares."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.recording.recorder import Recorder
from client_sdk.storage.periods import KEPT_PERIODS, MAX_TOUCHED, SPARE_PERIODS, carried, touched
from client_sdk.storage.sqlite import MemoryState, SqliteState
from rappor_core.calendar import EPOCH_ORDINAL, period_number
from rappor_core.metrics.metric import Metric
from tests.client.period_support import declared

DAY = 86_400
START = date(2026, 11, 21).toordinal() - EPOCH_ORDINAL
UNITS = ("day", "week", "month")


class Device:
    """A state on disk that is reopened at every `open`, as an app's is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: SqliteState | None = None

    def open(self, metrics: dict[str, Metric]) -> Recorder:
        self.close()
        self._state = SqliteState(str(self._folder / "s"), threading.RLock())
        if self._state.identity().secret is None:
            self._state.set_secret(bytes(range(32)))
        return Recorder(metrics, self._state)

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def days(self) -> Counter[int]:
        """Reports by the day that they state."""
        return Counter(day for (day,) in self._state.rows("SELECT day FROM queue"))

    def rows(self) -> int:
        tables = ("periods", "used_up")
        return sum(self._state.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    device = Device(tmp_path)
    yield device
    device.close()


def test_four_passes_give_one_report_a_day(device) -> None:
    for _ in range(4):
        for day in range(START, START + 66):
            device.open(declared()).record("m", "a", day * DAY)
    assert set(device.days().values()) == {1}
    assert len(device.days()) == 66


def test_a_clock_years_ahead_silences_no_device(device) -> None:
    ahead = device.open(declared(most=2))
    for day in range(START + 20_000, START + 20_100):
        ahead.record("m", "a", day * DAY)
    recorder = device.open(declared(most=2))
    for day in range(START, START + 100):
        assert recorder.record("m", "a", day * DAY) == "queued"
        recorder = device.open(declared(most=2))
        assert recorder.record("m", "a", day * DAY) == "queued"
        assert recorder.record("m", "a", day * DAY) == "full"
    assert device.rows() <= KEPT_PERIODS + SPARE_PERIODS + 8


def test_days_are_filled_after_a_clock_ahead(device) -> None:
    metrics = declared(more="no_data = 'none'")
    recorder = device.open(metrics)
    assert recorder.record("m", "a", (START + 9_000) * DAY) == "queued"
    assert recorder.record("m", "a", START * DAY) == "queued"
    assert recorder.fill_periods((START + 3) * DAY) == 2


@pytest.mark.parametrize("new", ["week", "month"])
def test_days_that_are_used_up_stay_so_in_another_unit(device, new) -> None:
    recorder = device.open(declared())
    for day in range(START, START + 120):
        recorder.record("m", "a", day * DAY)
    device.open(declared()).record("m", "a", (START + 120) * DAY)
    assert device.rows() < KEPT_PERIODS + SPARE_PERIODS
    assert device.open(declared(new)).record("m", "a", START * DAY) == "full"
    assert device.open(declared()).record("m", "a", START * DAY) == "full"


VERSIONS = st.tuples(st.sampled_from(UNITS), st.sampled_from((1, 2, 6, 31)))


@settings(max_examples=60)
@given(VERSIONS, st.lists(st.tuples(VERSIONS, st.lists(st.integers(0, 70), max_size=6))))
def test_no_life_has_more_reports_than_first_promised(first, life) -> None:
    state = MemoryState(bytes(32))
    Recorder(declared(*first), state).record("m", "a", START * DAY)
    for version, days in life:
        recorder = Recorder(declared(*version), state)
        for day in days:
            recorder.record("m", "a", (START + day) * DAY)
    reports = Counter(
        period_number(first[0], report.day.toordinal() - EPOCH_ORDINAL)
        for report in state.take_reports()
    )
    assert max(reports.values()) <= first[1]


def test_the_table_of_units_is_the_calendars() -> None:
    """By counting, over 60 years, how many periods of one unit share a day with one of another."""
    for unit in UNITS:
        for new in UNITS:
            first, last = period_number(unit, START), period_number(unit, START + 22_000)
            most = max(len(touched(unit, number, new)) for number in range(first, last))
            assert most == MAX_TOUCHED[unit][new]


@given(st.sampled_from(UNITS), st.sampled_from(UNITS), st.lists(st.integers(0, 40_000)))
def test_what_is_carried_over_is_never_less(unit, new, days) -> None:
    counts = Counter(period_number(unit, day) for day in days)
    real = Counter(period_number(new, day) for day in days)
    found = carried(counts, unit, new)
    assert all(found[period] >= number for period, number in real.items())
