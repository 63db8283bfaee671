"""Processes side by side on a slow disk: what finds the state held is recorded a little later."""

import threading
import time
from functools import partial
from typing import Any

import pytest

from client_sdk import Client, lifecycle
from client_sdk.recording.overflow import MAX_HELD, MAX_WAIT_FOR_ROOM
from client_sdk.storage.state_file import PATIENCE
from tests.client.lock_support import NOISE, QUIET, held, until_nothing_is_held
from tests.waiting import until, waited


@pytest.fixture
def used(open_client: Any) -> Client:
    client: Client = open_client(delivery=QUIET, development=False)
    assert client.record("homepage", "a")
    return client


def test_nothing_is_lost_beside_a_slow_disk(used, tmp_path) -> None:
    """The other holds the state for 150 ms of each 300, as where a sync takes so long."""
    ended = threading.Event()

    def other() -> None:
        while not ended.is_set():
            with held(tmp_path / "state"):
                ended.wait(0.15)
            ended.wait(0.15)

    def record(value: str) -> None:
        nonlocal queued, waiting
        queued += used.record("homepage", value)
        waiting = max(waiting, len(used._life.session.overflow.calls))  # type: ignore[union-attr]

    thread = threading.Thread(target=other)
    thread.start()
    queued, waiting, longest = 1, 0, 0.0
    try:
        for value in "ab" * 50:
            longest = max(longest, waited(partial(record, value)))
            time.sleep(0.02)
    finally:
        ended.set()
        thread.join()
    assert queued == 101
    assert waiting > 3  # the test reaches what it is about
    assert longest < PATIENCE + NOISE
    account = until_nothing_is_held(used)
    assert account["queued"] == {"homepage": 101}
    assert account["counters"] == {}


def test_what_is_held_is_bounded_and_told(used, tmp_path) -> None:
    with held(tmp_path / "state"):
        for _ in range(MAX_HELD):
            assert used.record("homepage", "a value of the person")
        assert waited(lambda: used.record("homepage", "a")) < MAX_WAIT_FOR_ROOM + NOISE
        assert waited(lambda: used.record("homepage", "a")) < NOISE  # no app waits again and again
        account = used.inspect()
        assert account["held"] == MAX_HELD
        assert account["counters"] == {"not_recorded:busy": 2}
        assert "a value of the person" not in str(account)
        assert "for longer than 50 ms" in used.last_refusal
    assert until_nothing_is_held(used)["queued"] == {"homepage": MAX_HELD + 1}


def test_no_large_or_changing_value_is_held(used, tmp_path) -> None:
    with held(tmp_path / "state"):
        for value in ("x" * 2_049, 1 << 65, ["light"], None):
            assert not used.record("theme", value)
        assert used.inspect()["held"] == 0
        assert used.record("theme", "pink")  # no category: seen when it is its turn
    assert until_nothing_is_held(used)["counters"]["mistake:ValueRefusedError"] == 1


def test_a_withdrawal_forgets_what_is_held(used, tmp_path, open_client) -> None:
    with held(tmp_path / "state"):
        session = used._life.session
        assert used.record("homepage", "b")
        used.set_consent(False)
    assert used.inspect()["held"] == 0
    used.set_consent(True)
    session.overflow.write_out()  # as its thread does now and then
    assert used.inspect()["queued"] == {}


def test_closing_in_vain_counts_what_is_held(used, tmp_path) -> None:
    with held(tmp_path / "state"):
        used.record("homepage", "b")
        assert waited(used.close) < 0.4 + NOISE
    assert used.inspect()["counters"]["not_recorded:busy"] == 1


def test_closing_writes_what_is_held(used, tmp_path, open_client, monkeypatch) -> None:
    monkeypatch.setattr(lifecycle, "CLOSE_SECONDS", 20.0)
    with held(tmp_path / "state"):
        for _ in range(3):
            assert used.record("homepage", "b")
    used.close()
    account = open_client(delivery=QUIET).inspect()
    assert account["queued"] == {"homepage": 4}
    assert account["counters"] == {}


def test_a_value_is_reported_for_its_own_day(used, clock, tmp_path) -> None:
    with held(tmp_path / "state"):
        assert used.record("homepage", "a")
        clock.now += 86_400
    until_nothing_is_held(used)
    state = used._life.session.state  # type: ignore[union-attr]
    assert state.rows("SELECT count(DISTINCT day) FROM queue") == [(1,)]


def test_the_app_writes_what_waits_where_the_thread_hangs(used, tmp_path, monkeypatch) -> None:
    """A collector that never answers keeps it for ten seconds; the state was held for a moment."""
    session = used._life.session
    monkeypatch.setattr(session.worker, "run_maintenance", lambda: None)
    with held(tmp_path / "state"):
        for _ in range(60):
            assert used.record("homepage", "b")
        assert len(session.overflow.calls) == 60
    until(lambda: used.record("homepage", "b") and not session.overflow.calls)


def test_flush_takes_any_number_of_seconds(used) -> None:
    for timeout in (float("inf"), 1e10):
        thread = threading.Thread(target=used.flush, args=(timeout,))
        thread.start()
        used._life.session.worker._done = 1 << 40  # type: ignore[union-attr]
        used.flush(0)
        thread.join(20)
        assert not thread.is_alive()
