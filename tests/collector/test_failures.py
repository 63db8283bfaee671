"""Disk full, database gone: 503 while it lasts, automatic recovery, nothing lost or doubled."""

import asyncio
import errno
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy import make_url, text

from collector.app import RULES
from collector.errors import DamagedBlocksError
from collector.store.database import CollectorDatabase, served_alone
from rappor_server import database as engine
from rappor_server.database import make_engine
from rappor_server.errors import SettingsError, StorageError
from rappor_server.logs import make_log
from rappor_server.problems import Problems
from rappor_server.serving import MAX_AGE, Readiness
from tests.collector.support import Seconds, Server, ServerMaker, make_metric

METRIC = make_metric(min_reports=1)
END_SESSIONS = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"


def total(server: Server) -> int:
    accepted: int = server.http.get("/v1/metrics").json()["metrics"][0]["accepted"]
    return accepted


def test_a_full_disk_is_503_until_room(serving, monkeypatch, seconds) -> None:
    """SQLite's own limit on pages gives the very error that a full disk gives."""
    wide = make_metric(num_bits=4096, min_reports=1)
    connections: list[sqlite3.Connection] = []
    prepare = engine._prepare_sqlite

    def remember(connection: sqlite3.Connection, record: object) -> None:
        prepare(connection, record)
        connections.append(connection)

    monkeypatch.setattr(engine, "_prepare_sqlite", remember)
    with serving([wide], refuse_implausible=False) as server:  # their bits are drawn evenly
        assert server.post(server.sender.reports(wide, 1)).status_code == 200
        connections_now = list(connections)
        for connection in connections_now:
            _limit(connection, 1)
        bodies = [server.sender.body(server.sender.reports(wide, 8)) for _ in range(30)]
        answers = [server.post_body(body) for body in bodies]
        full = [answer for answer in answers if answer.status_code == 503]
        assert full
        assert full[0].json()["type"].endswith("storage-unavailable")
        assert "retry-after" in full[0].headers
        assert server.http.get("/healthz").status_code == 200
        seconds.passed += MAX_AGE
        for _ in range(3):  # found by a trial write, and not forgotten
            assert server.http.get("/readyz").status_code == 503
            seconds.passed += MAX_AGE
        for connection in connections_now:
            _limit(connection, 1 << 30)
        seconds.passed += MAX_AGE
        assert server.http.get("/readyz").status_code == 200
        again = [server.post_body(body) for body in bodies]
        assert {answer.status_code for answer in again} == {200}
        assert total(server) == 1 + 8 * len(bodies)


def _limit(connection: sqlite3.Connection, pages: int) -> None:
    try:
        connection.execute(f"PRAGMA max_page_count={pages}")
    except sqlite3.ProgrammingError:
        return  # a connection that was closed meanwhile


def test_a_database_that_goes_away_and_comes_back(
    new_postgresql: Callable[[], str],
    serving: ServerMaker,
    postgresql: str,
    capfd: pytest.CaptureFixture[str],
    seconds: Seconds,
) -> None:
    """Every session is ended and no new one let in; then it is let in again."""
    url = new_postgresql()
    name = make_url(url).database
    with (
        serving([METRIC], database=url, database_seconds=2.0, log_level="warning") as server,
        psycopg.connect(postgresql, autocommit=True) as admin,
    ):
        bodies = [server.sender.body(server.sender.reports(METRIC, 5)) for _ in range(10)]
        assert server.post_body(bodies[0]).status_code == 200
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute(END_SESSIONS, (name,))
        seconds.passed += MAX_AGE
        gone = [server.post_body(body) for body in bodies[1:3]]
        assert {answer.status_code for answer in gone} == {503}
        assert server.http.get("/readyz").status_code == 503
        assert server.http.get("/healthz").status_code == 200
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert {server.post_body(body).status_code for body in bodies} == {200}
        seconds.passed += MAX_AGE
        assert server.http.get("/readyz").status_code == 200
        assert total(server) == 50
    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines()]  # no plain lines
    assert "request_failed" in {line["event"] for line in logged}


def test_readiness_costs_the_same_however_many_ask() -> None:
    """1,000 questions in five seconds are one trial; a fault counts until one finds it gone."""
    trials: list[bool] = []
    now, broken = [100.0], [False]

    def check() -> None:
        trials.append(broken[0])
        if broken[0]:
            raise StorageError("disk full")

    ready = Readiness(check, seconds=lambda: now[0])

    async def ask(times: int) -> int:
        answers = await asyncio.gather(*[ready.check() for _ in range(times)],
                                       return_exceptions=True)  # fmt: skip
        return sum(answer is None for answer in answers)

    async def script() -> None:
        assert await ask(1_000) == 1_000
        broken[0] = True
        assert await ask(10) == 10
        now[0] += MAX_AGE
        assert await ask(1_000) == 0
        broken[0] = False
        assert await ask(10) == 0
        now[0] += MAX_AGE
        assert await ask(10) == 10
        assert trials == [False, True, False]

    asyncio.run(script())


def test_damaged_days_are_no_reason_to_ask_again() -> None:
    """What a backup mends does not pass alone; only the log names the row."""
    said = StringIO()
    problems = Problems(make_log("info", said), RULES)
    answer = problems.answer(DamagedBlocksError("table blocks, series 7: first_day is text"))
    assert (answer.status_code, "retry-after" in answer.headers) == (500, False)
    result = json.loads(bytes(answer.body))
    assert result["type"].endswith("damaged-days")
    assert "restores a backup" in result["detail"]
    assert "series 7" not in result["detail"]
    assert "series 7" in said.getvalue()


def test_a_failover_is_over_with_the_next_session(
    new_postgresql: Callable[[], str], serving: ServerMaker, postgresql: str, seconds: Seconds
) -> None:
    """Sessions to the old primary stay open and read only (efcore.pg #1306, HikariCP #1802)."""
    url = new_postgresql()
    name = make_url(url).database
    read_only = f"ALTER DATABASE {name} SET default_transaction_read_only = on"
    with (
        serving([METRIC], database=url) as server,
        psycopg.connect(postgresql, autocommit=True) as admin,
    ):
        bodies = [server.sender.body(server.sender.reports(METRIC, 5)) for _ in range(6)]
        admin.execute(read_only)  # the sessions that come next
        admin.execute(END_SESSIONS, (name,))
        seconds.passed += MAX_AGE
        assert server.post_body(bodies[0]).status_code == 503
        assert server.http.get("/readyz").status_code == 503
        admin.execute(read_only.replace("= on", "= off"))
        seconds.passed += MAX_AGE
        statuses = [server.post_body(body).status_code for body in bodies]
        assert statuses[1:] == [200] * 5
        seconds.passed += MAX_AGE
        assert server.http.get("/readyz").status_code == 200
        assert server.http.get("/v1/metrics").status_code == 200


def test_the_wait_for_a_server_that_is_stopped_is_bounded(new_postgresql, postgresql) -> None:
    """Its kernel answers for it, so that no bound of TCP ends the wait."""
    database = CollectorDatabase(make_engine(new_postgresql()), max_seconds=0.5)
    try:
        with database.read() as connection:
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            with pytest.raises(StorageError), database.read() as connection:
                connection.execute(text("SELECT 1"))
            assert time.monotonic() - started < 10
        finally:
            os.kill(pid, signal.SIGCONT)
        with database.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1
    finally:
        database.close()


@pytest.mark.parametrize(
    "given",
    ["postgresql://u:hidden@127.0.0.1:9/x", "postgresql://u@127.0.0.1:9/x?password=hidden",
     "u:hidden@127.0.0.1/x", "postgresql:/u:hidden@127.0.0.1/x", "mysql://u:hidden@127.0.0.1/x"],
)  # fmt: skip
def test_no_message_holds_the_password_of_a_url(given: str) -> None:
    with (
        pytest.raises((SettingsError, StorageError)) as caught,
        CollectorDatabase(make_engine(given)).read(),
    ):
        pass
    assert "hidden" not in str(caught.value)


def test_a_database_is_locked_by_whatever_name(tmp_path: Path) -> None:
    file, link = tmp_path / "collector.sqlite", tmp_path / "link.sqlite"
    file.touch()
    link.symlink_to(file)
    with (
        served_alone(f"sqlite:///{file}"),
        pytest.raises(SettingsError, match="another collector runs on"),
        served_alone(f"sqlite:///{link}"),
    ):
        pass


def test_a_lock_that_cannot_be_taken_is_no_other_process(tmp_path, monkeypatch) -> None:
    """For the file of another user, and on a network's disk without locks."""
    url = f"sqlite:///{tmp_path}/collector.sqlite"
    lock = tmp_path / "collector.sqlite.collector.lock"
    lock.mkdir()
    message = "cannot lock .*collector.sqlite.collector.lock': {}; the collector must"
    with pytest.raises(SettingsError, match=message.format("Is a directory")), served_alone(url):
        pass
    lock.rmdir()

    def without_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", without_locks)
    with (
        pytest.raises(SettingsError, match=message.format("No locks available")),
        served_alone(url),
    ):
        pass


def test_a_shutdown_answers_what_was_begun(serving: ServerMaker, tmp_path: Path) -> None:
    """Requests in flight while the server ends are answered, and what was answered is counted."""
    answered: list[int] = []
    with serving([METRIC]) as server:

        def send() -> None:
            try:
                with httpx.Client(base_url=server.http.base_url, timeout=20) as http:
                    while True:
                        body = server.sender.body(server.sender.reports(METRIC, 1))
                        headers = {"content-type": "application/json"}
                        answer = http.post("/v1/reports", content=body, headers=headers)
                        if answer.status_code != 200:
                            return
                        answered.append(1)
            except httpx.TransportError:
                return

        threads = [threading.Thread(target=send) for _ in range(6)]
        for thread in threads:
            thread.start()
        while len(answered) < 20:
            pass
    for thread in threads:
        thread.join()
    with serving() as server:
        assert len(answered) <= total(server) <= len(answered) + 6


def test_a_second_collector_on_sqlite_is_refused(serving: ServerMaker, sqlite_url: str) -> None:
    with (
        serving([METRIC], database=sqlite_url),
        pytest.raises(SettingsError, match="SQLite allows one; use that one, or move"),
        serving(None, database=sqlite_url),
    ):
        pass
    with serving(None, database=sqlite_url) as server:
        assert server.http.get("/readyz").status_code == 200
