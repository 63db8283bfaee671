"""A full disk: it is said, and the service is not ready until a large write succeeds."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from rappor_server import database as engine
from tests.decoder_service.support import running
from tests.waiting import until

ROOM = 1 << 30  # pages
SECONDS = 2.0  # within which /readyz knows of a refused write


class Disk:
    """SQLite's own limit on pages gives the very error that a full disk gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._connections: list[sqlite3.Connection] = []
        self._pages = ROOM
        prepare = engine._prepare_sqlite

        def remember(connection: sqlite3.Connection, record: object) -> None:
            prepare(connection, record)
            self._connections.append(connection)
            connection.execute(f"PRAGMA max_page_count={self._pages}")

        monkeypatch.setattr(engine, "_prepare_sqlite", remember)

    def leave(self, pages: int) -> None:
        self._pages = pages
        for connection in self._connections:
            with suppress(sqlite3.ProgrammingError):  # one that was closed meanwhile
                connection.execute(f"PRAGMA max_page_count={pages}")


def is_storage(answer: httpx.Response) -> bool:
    """Whether it is the database that is not ready; no worker lives here, which comes after."""
    assert answer.status_code == 503
    return str(answer.json()["type"]).endswith("storage-unavailable")


def upload(client: httpx.Client, name: str, values: bytes) -> httpx.Response:
    return client.post(f"/v1/lists?name={name}", content=values)


@pytest.mark.long
def test_full_disks_are_told_until_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    values = b"\n".join(b"%d" % number for number in range(150_000))
    with running(f"sqlite:///{tmp_path}/d.sqlite") as served, served.client("ana") as ana:
        assert not is_storage(ana.get("/readyz"))
        disk.leave(1)
        names = iter("abcdef")  # what the trial writes freed is taken first
        while (refused := upload(ana, next(names), values)).status_code == 201:
            values += b"\n-"
        assert refused.status_code == 503
        assert "disk of the service's database is full" in refused.json()["detail"]
        until(lambda: is_storage(ana.get("/readyz")), SECONDS, every=0.1)
        assert ana.get("/v1/results").status_code == 200
        assert ana.get("/results").status_code == 200
        assert is_storage(ana.get("/readyz"))
        disk.leave(ROOM)
        until(lambda: not is_storage(ana.get("/readyz")), SECONDS, every=0.1)
        assert upload(ana, "z", values).status_code == 201
