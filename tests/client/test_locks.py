"""Another program holds the state: no call of the app waits for it, and a withdrawal ends well."""

import sqlite3
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.__main__ import main
from client_sdk.storage.directory import StateDirectory
from client_sdk.storage.state_file import PATIENCE
from tests.client.lock_support import NOISE, QUIET, held, holds
from tests.waiting import flush_in_vain, until, waited


@pytest.fixture
def used(open_client: Any) -> Client:
    client: Client = open_client(delivery=QUIET, development=False)
    assert client.record("homepage", "a")
    return client


@pytest.fixture(params=["a writer", "the whole file"])
def holder(request: pytest.FixtureRequest, used: Client, tmp_path: Path) -> Iterator[Any]:
    """Another connection that does not let go: in a transaction, or exclusive, as of a backup."""
    if request.param == "the whole file":
        thread = used._life.session.worker._thread
        used.close()
        thread.join()
    database = sqlite3.connect(
        tmp_path / "state" / "state.sqlite", isolation_level=None, check_same_thread=False
    )
    if request.param == "the whole file":
        database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    database.execute("BEGIN IMMEDIATE")
    database.execute("UPDATE meta SET value = value")
    yield database
    database.close()


def test_record_waits_50_ms_and_no_more(used, holder) -> None:
    seconds = [waited(lambda: used.record("homepage", "a")) for _ in range(200)]
    assert max(seconds) < PATIENCE + NOISE
    assert statistics.median(seconds) < 0.01
    account = used.inspect()
    assert account["held"] + account["counters"].get("not_recorded:closed", 0) == 200


def test_sixteen_threads_do_not_queue_up(used, tmp_path) -> None:
    def work(_: int) -> list[float]:
        return [waited(lambda: used.record("homepage", "a")) for _ in range(5)]

    with held(tmp_path / "state"), ThreadPoolExecutor(16) as threads:
        seconds = [one for found in threads.map(work, range(16)) for one in found]
    assert max(seconds) < PATIENCE + NOISE
    assert used.record("homepage", "a")
    assert used.inspect()["counters"] == {}
    until(lambda: used.inspect()["queued"] == {"homepage": 82})


def test_inspect_answers(used, holder, tmp_path, capsys) -> None:
    used.record("homepage", "a")
    accounts: list[dict[str, Any]] = []
    assert waited(lambda: accounts.append(used.inspect())) < 4 * PATIENCE + NOISE
    if used.status.condition != "closed":
        assert accounts[0]["queued"] == {"homepage": 1}
        assert accounts[0]["held"] == 1
        assert main(["inspect", str(tmp_path / "state")]) == 0
    else:
        assert main(["inspect", str(tmp_path / "state")]) == 1
        assert "is locked by another process" in capsys.readouterr().err


def test_closing_does_not_wait(used, holder) -> None:
    used.record("homepage", "a")
    assert waited(used.close) < 0.3 + NOISE


def test_opening_does_not_wait(open_client, used, holder) -> None:
    clients: list[Client] = []
    assert waited(lambda: clients.append(open_client(delivery=QUIET))) < 0.3 + NOISE
    assert clients[0].status.condition in ("active", "state_busy")
    holder.execute("ROLLBACK")
    holder.close()
    until(lambda: clients[0].record("homepage", "a"))  # once it looks again


def test_a_withdrawal_is_retried_until_it_is_done(open_client, used, tmp_path) -> None:
    secret = used._life.session.state.identity().secret
    with held(tmp_path / "state"):
        assert waited(lambda: used.set_consent(False)) < 0.3 + NOISE
        assert used.status.condition == "no_consent"
        assert "could not be wiped yet" in used.status.sentence
        assert holds(tmp_path / "state", secret)
    until(lambda: "yet" not in used.status.sentence)
    assert not holds(tmp_path / "state", secret)
    assert not StateDirectory(tmp_path / "state").is_withdrawn


def test_a_snapshotted_state_is_not_called_wiped(used, tmp_path) -> None:
    secret = used._life.session.state.identity().secret
    reader = sqlite3.connect(tmp_path / "state" / "state.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM queue").fetchone() == (1,)
    used.set_consent(False)
    assert "another process still reads" in used.status.sentence
    assert holds(tmp_path / "state", secret)
    reader.execute("COMMIT")
    reader.close()
    until(lambda: "yet" not in used.status.sentence)
    assert not holds(tmp_path / "state", secret)


def test_a_cut_off_withdrawal_ends_at_next_start(open_client, used, tmp_path) -> None:
    secret = used._life.session.state.identity().secret
    with held(tmp_path / "state"):
        used.set_consent(False)
        used._life._withdrawal.end()  # the process ended here
    client = open_client(delivery=QUIET)
    assert client.status.condition == "active"
    assert client._life.session.state.identity().secret != secret
    assert client.inspect()["queued"] == {}
    assert not holds(tmp_path / "state", secret)


def test_nothing_is_sent_while_a_withdrawal_is_pending(open_client, collector, tmp_path) -> None:
    other = open_client(delivery=QUIET)
    other.record("homepage", "a")
    (tmp_path / "state" / "withdrawal").touch()
    flush_in_vain(other, lambda: "withdrawn" in other.last_error)
    assert not collector.requests
