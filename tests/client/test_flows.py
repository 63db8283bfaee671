"""Flows on a device: which period it answers for, with what, and what is left of it afterwards."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from client_sdk import Client
from client_sdk.errors import UnknownMetricError
from client_sdk.inspection import render
from client_sdk.location.dwell_time import OUTSIDE, moment_of
from client_sdk.location.recorder import LocationRecorder, visits_of
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.interface import VISITS
from client_sdk.storage.sqlite import MemoryState
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import day_of
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Report
from tests.flow_support import LAGGED, YEARLY, flow_text
from tests.places_support import fix

START = datetime(2026, 11, 2, tzinfo=UTC)  # a Monday
NIGHT, WORK = 2, 10  # hours of the two slots
HOME, OFFICE, AWAY = (0.5, 0.5), (3.5, 3.5), (9.0, 9.0)
PAIR = "1-0-0>1-3-3"


def declared(**changes: str | None) -> MetricsFile:
    return parse_metrics(flow_text(**changes))


class Device:
    """The visits of one flow, restarted before each fix, with what it would send."""

    def __init__(self, file: MetricsFile, secret: bytes) -> None:
        self.file, self.secret = file, secret
        self.sent: list[tuple[str, int]] = []
        self.saved: str | None = None

    def at(self, day: int, hour: int, place: tuple[float, float] | None = None) -> None:
        """A fix, or a look at the clock; days are counted from START."""

        def send(name: str, value: str, day: int) -> None:
            assert name == "commute"
            self.sent.append((value, day - day_of(START)))

        visits = visits_of(self.file.parts("commute"), self.secret, send, self.saved)
        moment = moment_of(START + timedelta(day, hours=hour))
        if place is None:
            visits.look(moment)
        elif visits.refuses(moment, moment) is None:
            visits.fix(*place, moment)
        self.saved = visits.to_json()

    @property
    def kept(self) -> list[object]:
        """Places of the period that runs, and first cells that wait."""
        assert self.saved is not None
        saved = json.loads(self.saved)
        last = [saved["last"]] if saved["last"] and saved["last"][1] != OUTSIDE else []
        return [*saved["dwell"], *saved["known"], *last]


def secrets(number: int = 40) -> Iterator[bytes]:
    yield from (FixedRandomness(seed)(32) for seed in range(number))


def life(device: Device, days: range) -> None:
    for day in days:
        device.at(day, NIGHT, HOME)
        device.at(day, WORK, OFFICE)


def test_nothing_is_kept_of_an_undrawn_period() -> None:
    file = declared(spread="4")
    for secret in secrets():
        device = Device(file, secret)
        for day in range(9):
            before = len(device.sent)
            device.at(day, NIGHT, HOME)
            device.at(day, WORK, OFFICE)
            asked = [row[0] for row in json.loads(device.saved or "")["dwell"]]
            device.at(day + 1, 0)
            assert bool(asked) == (len(device.sent) > before)
            assert device.kept == []


def test_a_lag_keeps_the_first_cell_alone() -> None:
    device = Device(declared(**LAGGED, spread="3"), b"\x05" * 32)
    days: list[int] = []
    for day in range(9):
        device.at(day, NIGHT, HOME if day < 4 else OFFICE)
        device.at(day, WORK, AWAY)  # not asked for
        known = json.loads(device.saved or "")["known"]
        days += [day] * len(known)
        assert len(known) <= 1
    ((value, answered),) = device.sent
    first = answered - 2
    assert days == [first + 1, first + 2]
    assert value == (PAIR if first in (2, 3) else "1-0-0>1-0-0")
    device.at(9, 12)
    assert device.kept == []


def test_another_meaning_drops_places_and_keeps_the_answer() -> None:
    device = Device(declared(**LAGGED), next(secrets()))
    device.at(0, NIGHT, HOME)
    device.at(1, NIGHT, HOME)
    device.file = declared(**LAGGED, bands_km="[1.0, 2.0]")
    assert json.loads(device.saved or "")["known"]
    device.at(1, 4)
    assert json.loads(device.saved or "")["known"] == []
    answered = Device(declared(), next(secrets()))
    life(answered, range(2))
    answered.file = declared(bands_km="[1.0, 2.0]")
    life(answered, range(2, 5))
    assert len(answered.sent) == 1


# The recorder, the ledger, the state.


class Phone:
    """A whole device without files."""

    def __init__(self, file: MetricsFile, secret: bytes, budget: float | None = None) -> None:
        self.state = MemoryState(secret)
        self.recorder = Recorder(file.metrics, self.state, budget=budget)
        self.places = LocationRecorder(file, self.state, self.recorder, lambda: 0.0)

    def live(self, pairs: list[tuple[tuple[float, float] | None, ...]]) -> list[Report]:
        """One day a pair of places."""
        for day, pair in enumerate(pairs):
            self.places.roll(START + timedelta(day))
            for hour, place in zip((NIGHT, WORK), pair, strict=True):
                if place is not None:
                    fix(self.places, "commute", *place, START + timedelta(day, hours=hour))
        self.places.roll(START + timedelta(len(pairs)))
        return self.state.take_reports()


def test_the_ledger_does_not_tell_the_symbol_sent() -> None:
    """Whoever has the file has the secret: the digests of all symbols can be computed."""
    file, secret = declared(), next(secrets())
    left = set()
    for night, work in product((HOME, OFFICE, AWAY, None), repeat=2):
        phone = Phone(file, secret)
        (report,) = phone.live([(night, work)])
        assert report.metric == "commute"
        (entry,) = phone.state.entries("commute")
        left.add((entry, phone.state.note(VISITS + "commute")))
        assert entry.reports == 1
    assert len(left) == 1


def test_the_bound_for_life_holds_whatever_is_recorded() -> None:
    file = declared(**YEARLY)
    phone = Phone(file, next(secrets()))
    assert len(phone.live([(HOME, OFFICE)] * 30)) == 2
    metric = file.metrics["commute"]
    outcomes = {
        phone.recorder.record("commute", PAIR, (day_of(START) + day) * 86_400.0)
        for day in range(40)
    }
    assert outcomes == {"full"}
    assert metric.lifetime_epsilon == pytest.approx(2 * metric.epsilon_one)


def test_no_budget_no_answer() -> None:
    phone = Phone(declared(), next(secrets()), budget=1.0)
    assert phone.live([(HOME, OFFICE)] * 3) == []
    assert phone.state.counters() == {"closed:commute:nothing_left": 1, "closed:commute": 1}


def test_after_expiry_nothing_is_answered() -> None:
    phone = Phone(declared(expires="2026-11-01"), next(secrets()))
    assert phone.live([(HOME, OFFICE)] * 3) == []


# In an app.


def test_an_app_records_fixes_and_a_person_looks(tmp_path: Path) -> None:
    file = declared(**LAGGED, spread="1")
    now = [START.timestamp()]
    client = Client.open(
        file, state_dir=tmp_path, collector="http://localhost:1", consent=True,
        clock=lambda: now[0], development=True,
    )  # fmt: skip
    with client:
        with pytest.raises(UnknownMetricError, match="use record_location"):
            client.record("commute", PAIR)
        for day in range(2):
            now[0] = (START + timedelta(day, hours=NIGHT)).timestamp()
            assert client.record_location("commute", *HOME, START + timedelta(day, hours=NIGHT))
        account = client.inspect()
        (kept,) = account["places"]
        assert kept["last_known_places"] == 1
        assert "; first ones: 1" in kept["sentence"]
        now[0] = (START + timedelta(3)).timestamp()
        assert client.record_location("commute", *HOME, START + timedelta(3))
        (kept,) = client.inspect()["places"]
        assert (kept["places_of_period"], kept["last_known_places"]) == (0, 0)
        assert client.inspect()["queued"] == {"commute": 1}
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as database:
        (text,) = database.execute("SELECT text FROM notes").fetchone()
    assert json.loads(text)["dwell"] == json.loads(text)["known"] == []


def test_inspect_shows_no_cell_and_withdrawal_leaves_none(tmp_path: Path) -> None:
    file = declared(**LAGGED)
    choices = {"state_dir": tmp_path, "collector": "http://localhost:1", "consent": True}
    with Client.open(file, clock=lambda: START.timestamp(), **choices) as client:
        assert client.record_location("commute", *HOME, START + timedelta(hours=NIGHT))
        assert "1-0-0" not in render(client.inspect())
        client.set_consent(False)
    data = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"dwell" not in data
