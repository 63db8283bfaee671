"""Flows on a device: which period it answers for, with what, and what is left of it afterwards."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

from client_sdk import Client
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
from tests.flow_support import LAGGED, flow_text
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


def test_the_ledger_does_not_tell_the_symbol_sent() -> None:
    """Whoever has the file has the secret: the digests of all symbols can be computed."""
    file, secret = declared(), next(secrets())
    left = set()
    for pair in product((HOME, OFFICE, AWAY, None), repeat=2):
        state = MemoryState(secret)
        places = LocationRecorder(file, state, Recorder(file.metrics, state), lambda: 0.0)
        places.roll(START)
        for hour, place in zip((NIGHT, WORK), pair, strict=True):
            if place is not None:
                fix(places, "commute", *place, START + timedelta(hours=hour))
        places.roll(START + timedelta(1))
        assert [report.metric for report in state.take_reports()] == ["commute"]
        (entry,) = state.entries("commute")
        left.add((entry, state.note(VISITS + "commute")))
        assert entry.reports == 1
    assert len(left) == 1


def test_inspect_shows_no_cell_and_withdrawal_leaves_none(tmp_path: Path) -> None:
    file = declared(**LAGGED)
    choices = {"state_dir": tmp_path, "collector": "http://localhost:1", "consent": True}
    with Client.open(file, clock=lambda: START.timestamp(), **choices) as client:
        assert client.record_location("commute", *HOME, START + timedelta(hours=NIGHT))
        assert "1-0-0" not in render(client.inspect())
        client.set_consent(False)
    data = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"dwell" not in data
