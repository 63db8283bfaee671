"""`status` and `flush` say whether reports arrive, since when they do not, and why."""

import json
import logging
import sqlite3
from typing import Any

import pytest

from client_sdk import Delivery
from rappor_core.wire.report import Batch
from tests.client.process_support import output_of
from tests.waiting import flush_in_vain

WHEN_FLUSHED = Delivery(mean_delay=3600.0, first_pause=0.05)
SINCE = "not delivered since 2026-11-21T12:00:00Z, because "
DOWN = "http://127.0.0.1:9"


def stored_since(client: Any) -> object:
    """When the first sending failed, as the next start of the app will read it."""
    return client._life.session.state.get("failing_since")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (DOWN, "no exchange with 127.0.0.1:9: ConnectionRefusedError"),
        ("http://collector.invalid", "no exchange with collector.invalid: OSError: [Errno"),
    ],
)
def test_a_collector_that_is_not_there_shows(open_client, clock, caplog, address, why) -> None:
    client = open_client(collector=address, delivery=WHEN_FLUSHED)
    assert client.status.condition == "active"
    assert client.record("homepage", "a")
    flush_in_vain(client, lambda: client.status.condition == "not_delivered")
    for _ in range(2):
        clock.now += 60
        assert not client.flush(0.3)
    assert client.status.sentence.startswith(f"Values are recorded and wait: {SINCE}{why}")
    warned = [row for row in caplog.records if row.levelno >= logging.WARNING]
    assert [row.name for row in warned] == ["client_sdk"]
    assert SINCE in warned[0].getMessage()


@pytest.mark.parametrize("stored", [1e300, -1e300, 1e18])
def test_a_stored_time_beyond_any_clock_is_read(open_client, stored) -> None:
    """One flipped bit of a stored float is enough for it."""
    with open_client(collector=DOWN, delivery=WHEN_FLUSHED) as client:
        assert client.record("homepage", "a")
        flush_in_vain(client, lambda: stored_since(client))
        client._life.session.state.put("failing_since", stored)
    with open_client(collector=DOWN, delivery=WHEN_FLUSHED) as client:
        flush_in_vain(client, lambda: client.status.condition == "not_delivered")
        assert client.inspect()["status"]["condition"] == "not_delivered"


def test_since_when_outlives_the_app(open_client, clock, tmp_path) -> None:
    with open_client(collector=DOWN, delivery=WHEN_FLUSHED) as client:
        assert client.record("homepage", "a")
        flush_in_vain(client, lambda: stored_since(client))
    clock.now += 86_400
    with open_client(delivery=WHEN_FLUSHED, collector=DOWN) as client:
        flush_in_vain(client, lambda: SINCE in client.status.sentence)
    with open_client(delivery=WHEN_FLUSHED) as client:
        assert client.flush(20)
    with open_client(delivery=WHEN_FLUSHED, collector=DOWN) as client:
        assert client.record("homepage", "b")
        flush_in_vain(client, lambda: "since 2026-11-22T12:00:00Z" in client.status.sentence)


def refusing(batch: Batch) -> tuple[int, dict[str, str], bytes]:
    results = [{"status": "refused", "reason": "day_closed"} for _ in batch.reports]
    answer = {"version": 1, "batch_id": batch.batch_id, "results": results}
    return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()


def test_a_report_of_a_closed_day_is_lost(open_client, collector) -> None:
    collector.answer = refusing
    client = open_client(delivery=WHEN_FLUSHED)
    assert client.record("homepage", "a")
    assert not client.flush(20)
    assert client.last_error == "refused:homepage:day_closed"
    assert client.status.condition == "active"
    collector.answer = None
    assert client.record("homepage", "b")
    assert client.flush(20)
    assert client.last_error == ""


FULL = """
import resource, signal, sys
from client_sdk import Client, Delivery
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
client = Client.open(sys.argv[1], state_dir=sys.argv[2], collector="http://127.0.0.1:9",
                     consent=True, delivery=Delivery(mean_delay=3600.0))
assert client.record("homepage", "a")
sys.dont_write_bytecode = True  # Python would cut it off at the limit, for every later process
for most in (1_000, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    print(client.record("homepage", "a"), client.status.condition, client.status.sentence)
client.close()
"""


def test_a_full_disk_shows_until_something_is_recorded(tmp_path, metrics_text) -> None:
    full, then = output_of(FULL, tmp_path, metrics_text)
    assert full.startswith("False state_unavailable Not recorded: ")
    assert then == "True active Values are recorded and reports are sent."


def test_a_state_that_the_thread_cannot_use_shows(open_client, monkeypatch) -> None:
    def fails(_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("client_sdk.delivery.thread.TROUBLE_PAUSE", 0.02)
    client = open_client(delivery=WHEN_FLUSHED)
    with monkeypatch.context() as broken:
        broken.setattr("client_sdk.delivery.queue.ReportQueue.compose", fails)
        assert client.record("homepage", "a")
        flush_in_vain(client, lambda: client.status.condition == "not_delivered")
        assert "OperationalError: database or disk is full" in client.status.sentence
    assert client.flush(20)
    assert client.status.condition == "active"
    assert client.last_error == ""
