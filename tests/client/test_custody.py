"""A lost secret is never redrawn in silence."""

import gzip
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.delivery.options import SenderSetup
from client_sdk.errors import StateError
from client_sdk.lifecycle import SENTENCES
from client_sdk.storage.directory import MARKER_FILE, StateDirectory
from client_sdk.storage.interface import Identity
from client_sdk.storage.schema import FIRST_VERSION, SCHEMA_VERSION
from client_sdk.storage.sqlite import SqliteState
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.json import encode_json
from tests.waiting import until

QUIET = Delivery()  # nothing is sent during a test


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


def secret_of(client: Any) -> bytes:
    return client._life.session.state.identity().secret


def used(open_client: Any, value: str = "a") -> bytes:
    """A state that has memoized a value, and that nobody has open; returns its secret."""
    with open_client(delivery=QUIET) as client:
        assert client.record("homepage", value)
        secret, session = secret_of(client), client._life.session
        until(lambda: session.state.get("send_at") is not None)  # a later start would draw it
    session.worker._thread.join(10)  # `close` waits for a tenth of a second alone
    return secret


def test_a_later_start_writes_nothing(open_client, state_dir) -> None:
    used(open_client)
    before = {path: path.stat().st_mtime_ns for path in state_dir.iterdir()}
    with open_client(delivery=QUIET):
        after = {path: path.stat().st_mtime_ns for path in before}
        wal = state_dir / "state.sqlite-wal"
        assert not wal.exists() or wal.stat().st_size == 0
    assert after == before


def test_secrets_and_keys_are_not_shown_by_accident(open_client) -> None:
    client = open_client(delivery=QUIET, key="rk_report_private")
    identity = client._life.session.state.identity()
    setup = client._setup
    for_sender = SenderSetup(*(getattr(setup, name) for name in SenderSetup.field_names))
    assert for_sender.key == "rk_report_private"
    shown = f"{identity!r}{setup!r}{for_sender!r}{client._life.session!r}{client!r}"
    assert repr(identity.secret) not in shown
    assert "rk_report_private" not in shown


def test_a_file_system_without_hard_links(open_client, state_dir, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    secret = used(open_client)
    assert used(open_client) == secret
    assert stat.S_IMODE((state_dir / "state.sqlite").stat().st_mode) == 0o600


def quiet_until_reset(open_client: Any, condition: str, old_secret: bytes) -> Any:
    """The client says so, records nothing, and starts over only on request."""
    client = open_client(delivery=QUIET)
    assert client.status.condition == condition
    assert "reset()" in client.status.sentence
    assert not client.record("homepage", "a")
    client.close()
    client = open_client(delivery=QUIET)  # opening again changes nothing
    assert client.status.condition == condition
    client.reset()
    assert client.status.condition == "active"
    assert client.record("homepage", "a")
    assert secret_of(client) != old_secret
    (tombstone,) = client.inspect()["earlier_secrets"]
    assert tombstone["reason"] == condition
    return tombstone


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "header": lambda data: b"x" * 100 + data[100:],
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "middle": lambda data: data[:1024] + bytes(byte ^ 0x5A for byte in data[1024:]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_corrupt_state(open_client, state_dir, damage) -> None:
    secret, path = used(open_client), state_dir / "state.sqlite"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    condition = "state_missing" if damage == "empty" else "state_corrupt"
    quiet_until_reset(open_client, condition, secret)


def test_a_secret_with_a_flipped_bit(open_client, state_dir) -> None:
    secret = used(open_client)
    flipped = bytes([secret[0] ^ 1]) + secret[1:]
    with closing(sqlite3.connect(state_dir / "state.sqlite")) as database, database:
        database.execute("UPDATE meta SET value = ? WHERE name = 'secret'", (flipped,))
    quiet_until_reset(open_client, "state_corrupt", secret)


@pytest.mark.parametrize(
    ("old", "new", "reports"),
    [
        (b"reports INTEGER", b"reports INTEGES", 11),  # one of before, ten counted in advance
        (b"CREATE TABLE periods", b"CREAT\xc5 TABLE periods", 10),
    ],
)
def test_a_damaged_declaration_keeps_legible_rows(
    open_client, state_dir, old, new, reports
) -> None:
    secret, path = used(open_client), state_dir / "state.sqlite"
    (state_dir / "state.sqlite-wal").unlink(missing_ok=True)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    quiet_until_reset(open_client, "state_corrupt", secret)
    with closing(sqlite3.connect(path)) as database:
        counted = database.execute("SELECT sum(reports) FROM periods WHERE period >= 0").fetchone()
    assert counted == (reports,)


def test_an_older_copy_keeps_its_secret(open_client, state_dir, tmp_path) -> None:
    """Its permanent responses are the same again; a new secret would spend the budget again."""
    secret = used(open_client)
    shutil.copy(state_dir / "state.sqlite", tmp_path / "backup")
    used(open_client, "b")
    shutil.copy(tmp_path / "backup", state_dir / "state.sqlite")
    assert used(open_client, "b") == secret


def test_a_lost_marker_is_made_again(open_client, state_dir) -> None:
    secret = used(open_client)
    (state_dir / MARKER_FILE).unlink()
    assert used(open_client) == secret
    assert (state_dir / MARKER_FILE).exists()


def test_resetting_a_healthy_state_archives_the_ledger(open_client) -> None:
    secret = used(open_client)
    client = open_client(delivery=QUIET)
    client.reset()
    assert secret_of(client) != secret
    (tombstone,) = client.inspect()["earlier_secrets"]
    assert tombstone["reason"] == "asked_for"
    assert tombstone["ledger"]["homepage"]["values"] == 2
    client.reset()
    assert len(client.inspect()["earlier_secrets"]) == 2


def test_a_reset_needs_consent(open_client) -> None:
    with pytest.raises(StateError, match="consent"):
        open_client(consent=False).reset()


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, FIRST_VERSION - 1])
def test_a_foreign_schema_is_refused_and_not_touched(open_client, state_dir, version) -> None:
    used(open_client)
    with closing(sqlite3.connect(state_dir / "state.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {version}")
    client = open_client()
    assert client.status.condition == "state_newer"
    assert str(version) in client.status.sentence
    assert ("a later one" in client.status.sentence) == (version > SCHEMA_VERSION)
    with pytest.raises(StateError, match="schema version"):
        client.reset()


FORM_OF_4 = """
CREATE TABLE older (
    id INTEGER PRIMARY KEY, batch_id BLOB NOT NULL UNIQUE, reports INTEGER NOT NULL,
    last_day INTEGER NOT NULL, json INTEGER NOT NULL, body BLOB NOT NULL
);
INSERT INTO older SELECT id, batch_id, reports, last_day, 0, body FROM batches;
DROP TABLE batches;
ALTER TABLE older RENAME TO batches;
PRAGMA user_version = 4
"""


def test_a_state_of_the_first_version_is_upgraded(open_client, state_dir, collector) -> None:
    collector.answer = lambda _: (503, {}, b"")
    client = open_client()
    for name, value in (("theme", "dark"), ("crashed", True)):
        assert client.record(name, value)
    client.flush(1)  # makes batches, which are not taken
    client.close()
    before = ledger_of(state_dir)
    with closing(sqlite3.connect(state_dir / "state.sqlite")) as database:
        database.executescript(FORM_OF_4)
        number, body = database.execute("SELECT id, body FROM batches ORDER BY id").fetchone()
        batch = decode_binary(gzip.decompress(body)).ungrouped()
        changed = gzip.compress(encode_json(batch)), number
        database.execute("UPDATE batches SET json = 1, body = ? WHERE id = ?", changed)
        database.commit()
    collector.answer = None
    client = open_client()
    assert client.status.condition == "active"
    assert ledger_of(state_dir) == before
    assert client.record("crashed", True)
    assert client.flush(10)
    assert collector.counted() == {"theme": 1, "crashed": 2}


def ledger_of(state_dir: Path) -> list[Any]:
    with closing(sqlite3.connect(state_dir / "state.sqlite")) as database:
        secret = database.execute("SELECT value FROM meta WHERE name = 'secret'").fetchall()
        return secret + database.execute("SELECT line, digest, cost FROM entries").fetchall()


def test_simultaneous_first_starts_agree_on_one_secret(open_client) -> None:
    with ThreadPoolExecutor(6) as threads:
        clients = list(threads.map(lambda _: open_client(delivery=QUIET), range(6)))
    assert [client.status.sentence for client in clients] == [SENTENCES["active"]] * 6
    assert len({secret_of(client) for client in clients}) == 1


def test_another_process_starting_is_no_damage(open_client, state_dir, monkeypatch) -> None:
    """The other one makes its secret between two reads of this one's check."""
    directory = StateDirectory(state_dir)
    directory.open(threading.RLock()).close()  # the tables alone
    identity = SqliteState.identity

    def then_another_writes(state: SqliteState) -> Identity:
        found = identity(state)
        monkeypatch.setattr(SqliteState, "identity", identity)
        other = directory.connect(threading.RLock())
        other.set_secret(b"s" * 32)
        other.close()
        return found

    monkeypatch.setattr(SqliteState, "identity", then_another_writes)
    with open_client(delivery=QUIET) as client:
        assert client.status.sentence == SENTENCES["active"]
        assert secret_of(client) == b"s" * 32
