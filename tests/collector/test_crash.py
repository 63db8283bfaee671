"""`kill -9` under load, of processes, workers and hosts: each report is counted once."""

import os
import pwd
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from collector.store.database import CollectorDatabase
from rappor_core.ohttp.encapsulation import KeyConfig
from rappor_server.database import make_engine
from tests.collector.crash import (
    METRIC,
    SENDERS,
    Tally,
    await_more,
    await_ready,
    crash_test,
    listening,
    port_of,
    send_until,
    senders,
    start,
)
from tests.collector.support import Bench, make_bench
from tests.free_ports import free_port
from tests.relay_support import Behind, new_keys
from tests.waiting import until


def post_by_relay(config: KeyConfig, http: httpx.Client, body: bytes) -> tuple[int, bytes]:
    """Each try is a separate encapsulation, as a device makes them."""
    answer = Behind(http, config).post(body)
    return answer.status, answer.content


def collecting(url: str) -> Bench:
    """A database with the metric, by the machine's clock."""
    bench = make_bench(url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    return bench


KILLS = int(os.environ.get("RAPPOR_KILLS", "3"))


@pytest.mark.parametrize(
    ("database_url", "way", "kills"),
    [
        ("sqlite", "direct", 1),
        pytest.param("sqlite", "direct", KILLS, marks=pytest.mark.long),
        pytest.param("postgresql", "relay", KILLS, marks=pytest.mark.long),
    ],
    indirect=["database_url"],
)
def test_killed_at_random_it_counts_each_once(database_url, way, kills, tmp_path) -> None:
    """Each kind of database and each way once; RAPPOR_KILLS=200 for the figures of the page."""
    bench = collecting(database_url)
    if way == "direct":
        tally = crash_test(database_url, kills)
    else:
        file, (config,) = new_keys(tmp_path)
        send = partial(send_until, post=partial(post_by_relay, config))
        tally = crash_test(database_url, kills, send=send, RAPPOR_OHTTP_KEYS=str(file))
    assert tally.refused == 0
    assert tally.reports > SENDERS * kills
    print(f"{kills} kills, {tally.reports} reports acknowledged, {tally.duplicates} duplicates")
    tally.assert_counted(bench)


def test_workers_have_every_setting_and_their_supervisors_end(new_postgresql, monkeypatch) -> None:
    """Also a setting that is a list; and they end when the process that started them was killed."""
    origin = "https://app.example.org"
    monkeypatch.setenv("RAPPOR_ALLOWED_ORIGINS", f'["{origin}"]')
    monkeypatch.setenv("RAPPOR_MAX_REQUESTS_PER_KEY", "1e9")
    with listening() as listener:
        process = start(new_postgresql(), listener, workers=2)
        try:
            await_ready(port_of(listener))
            url = f"http://127.0.0.1:{port_of(listener)}/v1/reports"
            for _ in range(20):  # each over a separate connection, to whichever worker takes it
                answer = httpx.post(url, content=b"x", headers={"Origin": origin})
                assert answer.headers["access-control-allow-origin"] == origin
            counts = httpx.get(url.replace("/v1/reports", "/metrics")).text
            assert f'rappor_requests_total{{status="{answer.status_code}"}} 20.0' in counts
            workers = children_of(process.pid)
            assert len(workers) >= 2
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
            until(lambda: not any(map(is_running, workers)), 30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The processes that it started, by Linux's own list."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]


def is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


@pytest.mark.long
def test_killed_hosts_and_workers_count_each_once(new_postgresql: Callable[[], str]) -> None:
    """One database, two supervisors: whole hosts and single workers are killed under load."""
    url = new_postgresql()
    bench = collecting(url)
    tally, rng = Tally(), random.Random(11)
    with listening() as listener:
        port = port_of(listener)
        hosts = [start(url, listener, workers=2) for _ in range(2)]
        try:
            await_ready(port)
            with senders(port, tally):
                for kill in range(8):
                    time.sleep(rng.uniform(0.1, 0.5))
                    if kill % 2:
                        os.killpg(hosts[0].pid, signal.SIGKILL)
                        hosts[0].wait()
                        hosts[0] = start(url, listener, workers=2)
                    elif workers := children_of(hosts[1].pid):
                        os.kill(
                            rng.choice(workers), signal.SIGKILL
                        )  # its supervisor starts another
                await_ready(port)
                await_more(tally)
        finally:
            for host in hosts:
                host.terminate()
            for host in hosts:
                host.wait(30)
    assert tally.refused == 0
    assert tally.reports > 100
    tally.assert_counted(bench)


POOL_SIZE = 3  # sessions for all clients together: far fewer than the workers hold connections


@pytest.fixture
def pooled(new_postgresql: Callable[[], str], tmp_path: Path) -> Iterator[tuple[str, str]]:
    """URLs of one database: through PgBouncer in transaction mode, and past it."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed, so nothing was pooled (apt install pgbouncer)")
    direct = new_postgresql()
    url = make_url(direct)
    sockets, port = str(url.query["host"]), free_port()
    tmp_path.chmod(0o755)
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n{url.database} = host={sockets} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {POOL_SIZE}\n"
        "max_client_conn = 200\n"
    )
    owner = pwd.getpwuid(Path(sockets, ".s.PGSQL.5432").stat().st_uid).pw_name
    command = [program, *(("-u", owner) if os.getuid() == 0 else ()), str(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        await_pooler(process, port, str(url.database))
        yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/{url.database}", direct
    finally:
        process.terminate()
        process.communicate(timeout=20)


def await_pooler(process: subprocess.Popen[str], port: int, database: str) -> None:
    where: dict[str, Any] = {"host": "127.0.0.1", "port": port, "dbname": database}

    def answers() -> bool:
        assert process.poll() is None, process.communicate()[1]
        with suppress(psycopg.OperationalError):
            psycopg.connect(user="postgres", **where).close()
            return True
        return False

    until(answers, every=0.05)


def test_each_transaction_brings_its_settings_and_leaves_none(pooled: tuple[str, str]) -> None:
    """Whoever has the session next, and whatever was set in it before."""
    database, other = CollectorDatabase(make_engine(pooled[0], pool_size=1)), make_engine(pooled[0])
    names = ("synchronous_commit", "lock_timeout", "transaction_isolation")

    def shown(connection: Any) -> tuple[str, ...]:
        return tuple(connection.execute(text(f"SHOW {name}")).scalar_one() for name in names)

    with database.add() as connection:
        connection.execute(text("SET SESSION synchronous_commit = off"))
        connection.execute(text("SET SESSION lock_timeout = 0"))
    for _ in range(2 * POOL_SIZE):
        with database.change() as connection:
            assert shown(connection) == ("on", "5s", "read committed")
        with database.read() as connection:
            assert shown(connection)[2] == "repeatable read"
    with psycopg.connect(make_url(pooled[0]).set(drivername="postgresql", query={})
                         .render_as_string()) as plain:  # fmt: skip
        found = plain.execute("SHOW lock_timeout").fetchone()
        assert found == ("0",)  # the session's own, not that of the transactions before
    database.close()
    other.dispose()


@pytest.mark.long
def test_four_pooled_workers_count_once_through_kills(pooled: tuple[str, str]) -> None:
    """Twelve connections to three sessions; the host is killed three times, the sessions not."""
    url, direct = pooled
    bench = collecting(url)
    sessions: list[int] = []
    tally = crash_test(url, 3, workers=4, at_end=lambda: sessions.append(sessions_of(direct)))
    assert sessions[0] <= POOL_SIZE
    assert tally.refused == 0
    assert tally.reports > 100
    tally.assert_counted(bench)


def sessions_of(url: str) -> int:
    """Sessions of clients now, without the one that asks; the server's own come and go."""
    database = CollectorDatabase(make_engine(url))
    with database.read() as connection:
        statement = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        count: int = connection.execute(text(statement)).scalar_one()
    database.close()
    return count - 1
