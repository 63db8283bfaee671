"""Ways to make a device tell more of its places than was promised: each must fail."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest

from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.ledger import committed
from client_sdk.recording.recorder import Recorder
from client_sdk.recording.withdrawal import wipe_state
from client_sdk.storage.directory import StateDirectory
from client_sdk.storage.sqlite import SqliteState
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import last_day, period_number
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration
from tests.places_support import fix

SQUARE = {"grid": "square", "box": [0, 0, 10, 10], "rows": 10, "columns": 10, "levels": [0, 1]}
SQUARE |= {"slots": ["night 22-6", "day 6-22"], "expires": "2099-12-31", "num_cohorts": 4}
LASTING = {"mode": "memo", "epsilon_infinity": 2.0, "epsilon_one": 1.0}
MEMO = LASTING | {"num_bits": 64, "mechanism": "l-osue", "max_memoized_values": 3}
SYMBOLS = LASTING | {"encoding": "symbol", "num_symbols": 2, "max_memoized_values": 9}
ONCE = {"mode": "once", "num_bits": 16, "epsilon": 1.0}
WINDOW = ONCE | {"mode": "window", "window": 3, "max_reports": 3}
FRESH = WINDOW | {"turn": "fresh", "hold": 1}
MODES = {"memo": MEMO, "symbols": SYMBOLS, "window": WINDOW, "fresh": FRESH, "once": ONCE}
START = datetime(2026, 11, 2, tzinfo=UTC)
PLACES = [(0.5, 0.5), (3.5, 1.5), (7.5, 7.5), (5.5, 9.5), (50.0, 50.0)]


def declared(mode: str, **changes: object) -> MetricsFile:
    """The metric in a mode; a window is changed where there is one."""
    keys = SQUARE | MODES[mode] | changes
    if "window" not in MODES[mode]:
        keys.pop("window", None)
    return parse_metrics(declaration("density", "location", **keys))


class Phone:
    """One installation: a state on disk, and an app whose versions come and go."""

    def __init__(self, path: Path, file: MetricsFile, seed: int = 0) -> None:
        self.random = FixedRandomness(seed)
        self.directory = StateDirectory(path)
        self.state: SqliteState = self.directory.open(threading.RLock())
        self.day = 0
        self.consent()
        self.update(file)

    def consent(self) -> None:
        self.directory.ensure_secret(self.state, self.random)

    def update(self, file: MetricsFile) -> None:
        """A version of the app starts: nothing of the last one is left but the state."""
        self.file = file
        self.places = self.process()

    def process(self, state: SqliteState | None = None) -> LocationRecorder:
        state = state or self.state
        recorder = Recorder(self.file.metrics, state, randomness=self.random)
        return LocationRecorder(self.file, state, recorder, lambda: 0.0)

    def withdraw(self) -> None:
        """Consent is withdrawn, and given again. What is queued has been sent before."""
        self.sent = self.reports()
        wipe_state(self.state)
        self.consent()
        self.update(self.file)

    def live(self, days: int, places: LocationRecorder | None = None) -> None:
        """Some days, each somewhere else, by night and by day; then the day after begins."""
        for _ in range(days):
            for hour in (2, 12):
                place = PLACES[(self.day + hour) % len(PLACES)]
                at = START + timedelta(days=self.day, hours=hour)
                fix(places or self.places, "density", *place, at)
            self.day += 1
        (places or self.places).roll(START + timedelta(days=self.day, hours=1))

    def reports(self) -> list[tuple[str, int]]:
        """Sub-metric and day of every report that was ever queued."""
        query = "SELECT metric, day FROM queue JOIN sources ON sources.id = queue.source"
        queued = [(str(name), int(day)) for name, day in self.state.rows(query)]
        return [*getattr(self, "sent", []), *queued]

    def responses(self) -> int:
        line = self.state.line("density")
        return len(self.state.entries("density")) + (line.past_values if line else 0)


@contextmanager
def phone_of(path: Path, file: MetricsFile, seed: int = 0) -> Iterator[Phone]:
    phone = Phone(path, file, seed)
    try:
        yield phone
    finally:
        phone.state.close()


def check_promise(phone: Phone, first: MetricsFile) -> None:
    """Compare a life with what the first version of the app had promised."""
    metric, reports = first.declared[0], phone.reports()
    assert max(Counter(reports).values(), default=0) <= 1
    line = phone.state.line("density")
    assert committed(line, phone.state.entries("density")) <= metric.lifetime_epsilon + 1e-9
    if metric.location.mode == "memo":
        assert phone.responses() <= metric.max_permanent_responses
        return
    assert len(reports) <= (metric.max_reports or 0)
    days = sorted(day for _, day in reports)
    if metric.location.turn == "fresh":  # a version with other blocks keeps the reports of a life
        blocks = Counter(day // metric.location.window for day in days)
        assert phone.file.declared[0].location != metric.location or max(blocks.values()) == 1
        return
    apart = [after - before for before, after in pairwise(days)]
    assert all(gap >= metric.location.window for gap in apart)


VERSIONS = {
    "slots renamed": {"slots": ["nights 22-6", "days 6-22"]},
    "slots swapped": {"slots": ["day 6-22", "night 22-6"]},
    "a slot less": {"slots": ["day 6-22"]},
    "a slot more": {"slots": ["night 22-6", "day 6-12", "later 12-22"]},
    "a level less": {"levels": [1]},
    "a level more": {"levels": [0, 1, 2]},
    "another box": {"box": [0, 0, 11, 10]},
    "a shorter window": {"window": 2},
    "a longer window": {"window": 5},
    "longer periods": {"period": "week", "window": 2},
}


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("what", list(VERSIONS))
def test_new_versions_of_the_app_continue(mode, what, tmp_path) -> None:
    first, second = declared(mode), declared(mode, **VERSIONS[what])
    with phone_of(tmp_path, first) as phone:
        for _ in range(4):
            for file in (first, second):
                phone.update(file)
                phone.live(5)
        check_promise(phone, first)
        assert phone.reports()


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("seed", range(3))
def test_consent_withdrawn_and_given_again_is_one_life(mode, seed, tmp_path) -> None:
    with phone_of(tmp_path, declared(mode), seed) as phone:
        for _ in range(8):
            phone.live(2)
            phone.withdraw()
        phone.live(12)
        check_promise(phone, phone.file)
        assert phone.reports()


@pytest.mark.parametrize("mode", list(MODES))
def test_two_processes_share_one_promise(mode, tmp_path) -> None:
    with phone_of(tmp_path, declared(mode)) as phone:
        other = StateDirectory(tmp_path).connect(threading.RLock())
        both = phone.process(), phone.process(other)
        for _ in range(10):
            today = phone.day
            for places in both:
                phone.day = today
                phone.live(1, places)
        other.close()
        check_promise(phone, phone.file)
        assert phone.reports()


@pytest.mark.parametrize("mode", list(MODES))
def test_a_clock_that_jumps_buys_nothing(mode, tmp_path) -> None:
    with phone_of(tmp_path, declared(mode)) as phone:
        for jump in (3, -5, 40, -38, 1, -1, 7, -9, 400, -399):
            phone.day = max(phone.day + jump, 0)
            phone.live(4)
            if jump % 2:
                phone.update(phone.file)
        check_promise(phone, phone.file)
        assert phone.reports()


@pytest.mark.parametrize("mode", list(MODES))
def test_a_period_that_was_reported_stays_closed(mode, tmp_path) -> None:
    with phone_of(tmp_path, declared(mode)) as phone:
        for _ in range(8):
            phone.live(1)
            phone.places.save()
            before = phone.state.note("visits:density") or ""
            phone.live(1)
            phone.state.put_note("visits:density", before)
            phone.update(phone.file)
            phone.day -= 1
            phone.live(1)
        check_promise(phone, phone.file)
        assert phone.reports()


@pytest.mark.parametrize("mode", list(MODES))
def test_travel_over_the_date_line_reports_once(mode, tmp_path) -> None:
    with phone_of(tmp_path, declared(mode)) as phone:
        for hours in range(0, 240, 3):
            zone = timezone(timedelta(hours=12 if hours % 2 else -11))
            at = (START + timedelta(hours=hours)).astimezone(zone)
            fix(phone.places, "density", *PLACES[hours % 5], at)
        check_promise(phone, phone.file)
        assert phone.reports()


@pytest.mark.parametrize(
    ("first", "second"),
    [("memo", "once"), ("memo", "window"), ("once", "window"), ("window", "memo"),
     ("once", "memo"), ("symbols", "memo")],
)  # fmt: skip
def test_another_mode_of_the_same_name_is_refused(first, second, tmp_path) -> None:
    with phone_of(tmp_path, declared(first)) as phone:
        phone.live(7)
        before = phone.reports()
        phone.update(declared(second))
        phone.live(7)
        assert phone.reports() == before
        check_promise(phone, declared(first))


def test_a_life_limit_of_memo_counts_all_slots(tmp_path) -> None:
    with phone_of(tmp_path, declared("memo", levels=[0], max_reports=5)) as phone:
        phone.live(9)
        assert len(phone.reports()) == 5


@pytest.mark.parametrize("period", ["day", "week", "month"])
@pytest.mark.parametrize("window", [2, 3, 50, 1000])
def test_days_tell_a_window_from_the_next(period, window, tmp_path) -> None:
    """Last days of periods `window` apart may both be reported; `window - 1` apart may not."""
    file = declared("window", period=period, window=window)
    with phone_of(tmp_path, file) as phone:
        recorder = Recorder(phone.file.metrics, phone.state, randomness=phone.random)
        for first in (23_700, 23_701, 23_713):  # in months: of 1975 and 1976
            number = period_number(period, last_day("month", first))
            apart = [last_day(period, number + step) for step in (0, window - 1, window)]
            outcomes = [recorder.record("density/day/0", "other", day * 86_400.0) for day in apart]
            assert outcomes == ["queued", "full", "queued"]
            phone.state.database.execute("DELETE FROM periods")


@pytest.mark.parametrize("period", ["day", "week", "month"])
@pytest.mark.parametrize("window", [2, 52, 1000])
def test_days_tell_a_block_from_the_next(period, window, tmp_path) -> None:
    file = declared("fresh", period=period, window=window)
    with phone_of(tmp_path, file) as phone:
        recorder = Recorder(phone.file.metrics, phone.state, randomness=phone.random)
        for month in (23_700, 23_701, 23_713):  # of 1975 and 1976
            end = period_number(period, last_day("month", month)) // window * window + window
            for numbers in ((end - 1, end, end - window, end + window - 1), (end, end - 1)):
                days = [last_day(period, number) * 86_400.0 for number in numbers]
                outcomes = [recorder.record("density/day/0", "other", day) for day in days]
                assert outcomes == ["queued", "queued", "full", "full"][: len(days)]
                phone.state.database.execute("DELETE FROM periods")


def test_a_fixed_turn_that_was_promised_stays_fixed(tmp_path) -> None:
    """Fresh turns let two answers into one window: a weaker promise, under the same name."""
    with phone_of(tmp_path, declared("window")) as phone:
        phone.live(7)
        before = phone.reports()
        assert before
        phone.update(declared("fresh"))
        phone.live(7)
        assert phone.reports() == before
        why = "closed:density/day/0:weaker_than_agreed:reports_in_window"
        assert why in phone.state.counters()


@pytest.mark.parametrize("moves", [False, True])
def test_another_meaning_of_a_name_shows_who_moved(moves, tmp_path) -> None:
    """A stated limit (docs/location.md): the cap is shared, so who has used it falls silent."""
    first, second = declared("memo", levels=[0]), declared("memo", levels=[0], box=[0, 0, 11, 10])
    with phone_of(tmp_path, first) as phone:
        for day in range(3):
            place = PLACES[day if moves else 0]
            fix(phone.places, "density", *place, START + timedelta(days=day, hours=12))
        phone.places.roll(START + timedelta(days=3))
        before = len(phone.reports())
        phone.update(second)
        phone.places.roll(START + timedelta(days=4, hours=1))
        assert (len(phone.reports()) > before) is not moves
        check_promise(phone, first)
