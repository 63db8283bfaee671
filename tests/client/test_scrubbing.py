"""What was kept of a period leaves every byte of the files when the period closes."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Delivery
from client_sdk.delivery import thread
from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.directory import StateDirectory
from client_sdk.storage.state_file import StateFile
from client_sdk.testing import FixedRandomness
from rappor_core.metrics.file import parse_metrics
from tests.client.location_support import START, declared
from tests.metric_texts import declaration
from tests.places_support import fix
from tests.waiting import until

DAY = 86_400.0
NIGHT, NOON = START + timedelta(hours=2), START + timedelta(hours=12)
PLACE = b'["night",'  # of the time spent in a cell, as a note has it
COUNTED = declaration(
    "length", "number", unit="pages", of_period="max", edges=[1, 5], none="zero", mode="memo",
    epsilon_infinity=2.0, epsilon_one=1.0,
)  # fmt: skip


class Device:
    """A client with a clock; its reports wait for 100 minutes and more."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.folder, self.now = folder, NIGHT.timestamp()
        self.file = parse_metrics(text) if text else declared("memo")

    def open(self) -> Client:
        return Client.open(
            self.file, state_dir=self.folder, collector="http://127.0.0.1:9", consent=True,
            clock=lambda: self.now, delivery=Delivery(mean_delay=100_000),
        )  # fmt: skip

    @property
    def bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))

    def spend_a_night(self, client: Client) -> None:
        assert client.record_location("density", 1.5, 1.5, at=NIGHT)
        client._life.session.places.save()
        assert PLACE in self.bytes


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def test_a_closing_fix_scrubs_while_reports_wait(device) -> None:
    with device.open() as client:
        device.spend_a_night(client)
        for day in (1, 2):
            device.now += DAY
            at = NOON + timedelta(days=day)
            assert client.record_location("density", 1.5, 1.5, at=at)
            until(lambda: PLACE not in device.bytes)
        assert client.inspect()["queued"]


def test_a_number_that_closes_a_period_scrubs(tmp_path) -> None:
    device = Device(tmp_path, COUNTED)
    with device.open() as client:
        assert client.record("length", 4)
        session = client._life.session
        before = (session.state.note("numbers:length") or "").encode()
        assert before in device.bytes
        device.now += DAY
        assert client.record("length", 0)
        until(lambda: before not in device.bytes)


def test_a_period_without_a_fix_is_scrubbed_too(device, monkeypatch) -> None:
    monkeypatch.setattr(thread, "LOOK_SECONDS", 0.05)
    with device.open() as client:
        device.spend_a_night(client)
        device.now += DAY
        until(lambda: PLACE not in device.bytes)
        device.now += DAY
        until(lambda: len(client.inspect()["queued"]) > 0)


def test_a_look_is_due_daily_in_every_zone(device) -> None:
    with device.open() as client:
        session = client._life.session
        midnight = 1_793_577_600.0 - (5 * 60 + 45) * 60
        device.now = midnight - 70
        assert session.worker._until_look() == 70
        device.now = midnight + 1
        assert session.worker._until_look() == thread.LOOK_SECONDS - 1


def test_a_scrub_hindered_by_a_reader_is_retried(device, monkeypatch) -> None:
    monkeypatch.setattr(thread, "SCRUB_PAUSE", 0.05)
    scrub, tried = StateFile.scrub, list[bool]()
    monkeypatch.setattr(StateFile, "scrub", lambda self: tried.append(scrub(self)) or tried[-1])
    with device.open() as client:
        device.spend_a_night(client)
        with closing(sqlite3.connect(device.folder / "state.sqlite")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM notes").fetchall()
            device.now += DAY
            assert client.record_location("density", 1.5, 1.5, at=NOON + timedelta(days=1))
            until(lambda: False in tried)
            assert PLACE in device.bytes
            reader.execute("ROLLBACK")
            until(lambda: PLACE not in device.bytes)


KILLED = """
import os, sys
from datetime import timedelta
from pathlib import Path
from tests.client.test_scrubbing import Device, NIGHT, NOON, DAY
from client_sdk.storage import state_file
state_file.StateFile.scrub = lambda self: False  # another process reads, to the end
device = Device(Path(sys.argv[1]))
client = device.open()
device.spend_a_night(client)
device.now += DAY
assert client.record_location("density", 1.5, 1.5, at=NOON + timedelta(days=1))
os._exit(0)
"""


def test_an_unfinished_scrub_is_left_to_the_next(device) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLED, str(device.folder)]
    subprocess.run(command, check=True, cwd=root)
    assert PLACE in device.bytes
    device.now += DAY + 60
    with device.open():
        until(lambda: PLACE not in device.bytes)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Any]:
    with closing(StateDirectory(tmp_path).open(threading.RLock())) as opened:
        StateDirectory(tmp_path).ensure_secret(opened, FixedRandomness(1))
        yield opened


def test_what_others_delete_during_scrubs_is_scrubbed(state, monkeypatch) -> None:
    state.leave_trace()
    scrub = state.scrub
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(state, "scrub", lambda: [state.leave_trace()] and scrub())
        assert state.scrub_traces()
    assert state.get("unscrubbed") is not None
    assert state.scrub_traces()
    assert state.get("unscrubbed") is None


def test_a_scrub_waiting_for_disk_blocks_no_writer(state) -> None:
    state.put_note("x", kept := "what is still in the log")
    database, in_file = state._open, []

    class Seeing:
        def execute(self, text: str) -> Any:
            if "TRUNCATE" in text:  # which locks the file, and has nothing left to copy
                in_file.append(kept.encode() in Path(state.path).read_bytes())
            return database.execute(text)

    state._open = Seeing()
    try:
        assert state.scrub()
    finally:
        state._open = database
    assert in_file == [True]


def test_a_period_ending_in_error_is_scrubbed(state, monkeypatch) -> None:
    """The mark is of the transaction that deletes, so no caller can lose it."""
    file = declared("memo")
    places = LocationRecorder(file, state, Recorder(file.metrics, state), lambda: 0.0)
    fix(places, "density", 1.5, 1.5, NIGHT)
    places.save()
    assert state.get("unscrubbed") is None
    monkeypatch.setattr(state, "count", lambda *_: None)
    fix(places, "density", 1.5, 1.5, NOON + timedelta(days=1))
    assert state.get("unscrubbed") is not None


def test_what_is_left_shows_no_longer_predecessor(tmp_path) -> None:
    """Of two devices with equal notes now, the file does not show whose note was longer before."""
    pages = []
    for length in (20, 90):
        folder = tmp_path / str(length)
        with closing(StateDirectory(folder).open(threading.RLock())) as state:
            for name, text in (("a", "short"), ("b", "x" * length), ("c", "short")):
                with state.transaction():
                    state.put_note(name, text)
            with state.transaction():
                state.put_note("b", "gone")
                state.leave_trace()
            assert state.scrub_traces()
            pages.append(notes_page(folder / "state.sqlite"))
    assert pages[0] == pages[1]


def notes_page(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as database:
        ((number,),) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'notes'")
        ((size,),) = database.execute("PRAGMA page_size")
    return path.read_bytes()[(number - 1) * size : number * size]
