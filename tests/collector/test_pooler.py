"""The collector behind PgBouncer in transaction mode: no statement leans on a session."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from collector.store.database import CollectorDatabase
from rappor_server.database import make_engine
from tests.collector.crash import (
    METRIC,
    Tally,
    await_more,
    await_ready,
    listening,
    port_of,
    senders,
    start,
)
from tests.collector.support import make_bench
from tests.free_ports import free_port
from tests.waiting import until

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
def test_four_pooled_workers_count_once_through_kills(
    pooled: tuple[str, str],
) -> None:
    """Twelve connections to three sessions; the host is killed three times, the sessions not."""
    url, direct = pooled
    bench = make_bench(url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    tally = Tally()
    with listening() as listener:
        process = start(url, listener, workers=4)
        try:
            await_ready(port_of(listener))
            with senders(port_of(listener), tally):
                for _ in range(3):
                    await_more(tally)
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    process = start(url, listener, workers=4)
                    await_ready(port_of(listener))
                await_more(tally)
                assert sessions_of(direct) <= POOL_SIZE
        finally:
            process.terminate()
            process.wait(60)
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
