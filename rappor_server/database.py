"""Connections and transactions for both SQLite and PostgreSQL."""

import os
import select
import socket
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    delete,
    event,
    insert,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from rappor_server.errors import ConflictError, DiskFullError, SettingsError, StorageError


@dataclass(frozen=True, slots=True)
class Program:
    """A program that owns a database."""

    name: str  # the name in messages, as in "stop the collector"
    table: str  # a table that exists only in its databases
    metadata: MetaData
    migrations: Path
    migration_lock: int  # the number of a PostgreSQL advisory lock
    shares_database: bool  # whether `migrate` may add tables to a different program's database


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_HINTS = {  # by SQLite's error code
    sqlite3.SQLITE_NOTADB: "name the file that rappor migrate created, or restore a backup",
    sqlite3.SQLITE_CORRUPT: "restore a backup",
    sqlite3.SQLITE_CANTOPEN: "check the path, and that the file is writable",
    sqlite3.SQLITE_READONLY: "change its permissions, and those of its directory",
    sqlite3.SQLITE_FULL: "make room on its disk",
    sqlite3.SQLITE_BUSY: "another process is using it; try again",
}

# Whether commits are durable; a session sees changed server settings at its next statement.
COMMIT_SETTING = "current_setting('fsync')"
_RECYCLE_SECONDS = 300  # the maximum age of a session, which may read from an old primary
_SERVER_BOUNDS = {  # the time until a lost server is detected, in seconds and milliseconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
# SQLSTATE codes for a useless session: read-only after a failover, or ended by the server.
_USELESS_STATES = {"25006", "25P03", "57P01", "57P02", "57P03", "57P05"}
_CONFLICTS, _DISK_FULL = ("40P01", "40001"), "53100"  # a resolved deadlock; a full disk


def parse_url(database: str) -> URL:
    """Parse a database URL. Raises SettingsError, without the password, if it is invalid."""
    try:
        url = make_url(database)
        return url.set(drivername=_DRIVERS[url.get_backend_name()])
    except (ArgumentError, KeyError):
        raise SettingsError(
            f"database {database.partition('@')[0].partition(':')[0]!r}...: not a URL such as "
            "sqlite:///FILE.sqlite or postgresql+psycopg://user@host/name"
        ) from None


@contextmanager
def alone_on_sqlite(database: str, process: str) -> Iterator[None]:
    """Lock an SQLite database for a `with` block, so that one process of a kind uses it.

    `process` names the kind, as in "another collector". PostgreSQL allows several processes. Raises
    SettingsError if another process has the database, or if it cannot be locked.
    """
    url = parse_url(database)
    if url.get_backend_name() != "sqlite" or fcntl is None:
        yield
        return
    # A separate file: closing the database file would release SQLite's own locks.
    path = Path(f"{Path(str(url.database)).resolve()}.{process}.lock")
    with ExitStack() as files:
        try:
            lock = files.enter_context(path.open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"another {process} runs on {url.database!r}: SQLite allows one; use that one, or "
                "move to PostgreSQL for more"
            ) from None
        except OSError as error:
            raise SettingsError(
                f"cannot lock {str(path)!r}: {error.strerror}; the {process} must be able to write "
                "this file, on a disk of this machine"
            ) from error
        yield


def make_engine(database: str, *, pool_size: int = 2, timeout: float = 5.0) -> Engine:
    """Return the database engine; no connection is opened yet.

    `pool_size` is the maximum number of connections to PostgreSQL. `timeout` is the number of
    seconds to wait for a lock or a connection.
    """
    url = parse_url(database)
    if url.get_backend_name() != "sqlite":
        return _postgresql(url, pool_size, timeout)
    if url.database in (None, "", ":memory:"):
        raise SettingsError("database sqlite:// in memory would be lost; name a file")
    file = Path(str(url.database))
    if not file.parent.is_dir():
        raise SettingsError(f"database {url.database!r}: there is no directory {file.parent}")
    engine = create_engine(url, connect_args={"timeout": timeout, "check_same_thread": False})
    event.listen(engine, "do_connect", lambda *_: make_private(file))
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def make_private(file: Path) -> None:
    """Create an empty file, if missing, that only its owner can read."""
    with suppress(OSError):  # SQLite reports any problem when it opens the file
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Set WAL with FULL sync, for durable commits. The driver must not begin transactions."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; writers acquire the write lock first, to wait instead of failing."""
    write = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgresql(url: URL, pool_size: int, timeout: float) -> Engine:
    """Return an engine that sets options in each transaction: poolers may change sessions."""
    settings = {  # override the settings of the server, the role and the database
        "synchronous_commit": "on",
        "lock_timeout": str(int(timeout * 1000)),
        "idle_in_transaction_session_timeout": "60000",
    }
    engine = create_engine(
        url,
        isolation_level="READ COMMITTED",  # a writer must see all commits before its locks
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout,
        pool_recycle=_RECYCLE_SECONDS,
        connect_args={
            "connect_timeout": max(2, int(timeout)),
            "prepare_threshold": None,  # a prepared statement would exist in only one session
            **_SERVER_BOUNDS,
        },
    )
    calls = ", ".join(f"set_config('{key}', '{text}', true)" for key, text in settings.items())
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(f"SELECT {calls}"))
    event.listen(engine, "checkout", _refuse_hung_up)
    return engine


def _refuse_hung_up(connection: Any, _record: object, _proxy: object) -> None:
    """Raise DisconnectionError if the server has closed the connection, without a round trip."""
    if connection.closed:
        raise DisconnectionError
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if waiting.poll(0):  # the only message to an idle session is its end
        raise DisconnectionError


def refuse_unsafe_commits(fsync: str) -> None:
    """Raise StorageError if PostgreSQL does not sync commits to its disk."""
    if fsync == "off":
        raise StorageError(
            "fsync = off in PostgreSQL: acknowledged data could be lost with the server; set "
            "fsync = on and reload its configuration"
        )


def check_commits(connection: Connection, lock: str = "") -> None:
    """Check on PostgreSQL that commits are synced to disk, and acquire a lock.

    `lock` is a call of a PostgreSQL function, which is part of the same round trip; SQLite has only
    one writer. Raises StorageError if commits are not synced.
    """
    if connection.dialect.name == "postgresql":
        statement = text(f"SELECT {COMMIT_SETTING}" + (f", {lock}" if lock else ""))
        refuse_unsafe_commits(connection.execute(statement).one()[0])


def _hang_up(connection: Any) -> None:
    """Close a connection's socket, which ends another thread's wait for a silent server."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


class Database:
    """A database engine with transactions; every database failure is a StorageError.

    Once PostgreSQL reports a useless session, all sessions from that time are replaced.
    """

    def __init__(self, engine: Engine, program: Program, *, max_seconds: float = 120.0) -> None:
        """Prepare the database; `max_seconds` limits a transaction on PostgreSQL."""
        self.max_seconds = max_seconds
        self._dropped = float("-inf")
        self.engine = engine
        self.program = program
        self.is_postgresql = engine.dialect.name == "postgresql"
        if self.is_postgresql:
            event.listen(engine, "connect", lambda _, record: record.info.update(made=monotonic()))
            event.listen(engine, "checkout", self._refuse_dropped)
        self._is_closed = False

    def read(self) -> AbstractContextManager[Connection]:
        """Return a transaction that reads one consistent view of the tables."""
        level: Any = {"isolation_level": "REPEATABLE READ"} if self.is_postgresql else {}
        return self._transaction(**level)

    def change(self) -> AbstractContextManager[Connection]:
        """Return a writing transaction. Raises StorageError if its commit would not be synced."""
        return self.locked()

    @contextmanager
    def locked(self, *locks: str) -> Iterator[Connection]:
        """Run a writing transaction that first acquires PostgreSQL locks, in this order.

        `locks` are calls of PostgreSQL functions. Raises StorageError if commits are not synced.
        """
        with self._transaction(writes=True) as connection:
            for statement in locks or ("",):
                check_commits(connection, statement)
            yield connection

    @contextmanager
    def _bounded(self, connection: Connection) -> Iterator[None]:
        """Close a transaction's connection after a time limit: a stopped server never answers."""
        session = connection.connection.driver_connection
        timer = threading.Timer(min(self.max_seconds, threading.TIMEOUT_MAX), _hang_up, (session,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _refuse_dropped(self, _connection: object, record: Any, _proxy: object) -> None:
        if record.info["made"] <= self._dropped:
            raise DisconnectionError

    @contextmanager
    def _transaction(self, **options: Any) -> Iterator[Connection]:
        try:
            with (
                self.engine.connect().execution_options(**options) as connection,
                self._bounded(connection) if self.is_postgresql else nullcontext(),
                connection.begin(),
            ):
                yield connection
        except (DBAPIError, PoolTimeoutError, sqlite3.Error, psycopg.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            state, code = (getattr(cause, name, None) for name in ("sqlstate", "sqlite_errorcode"))
            code = None if code is None else code & 0xFF
            reason = str(cause).strip().partition("\n")[0][:200]
            if isinstance(cause, PoolTimeoutError):
                reason = "all its connections are in use"
            if code in _HINTS:
                reason = f"{reason}; {_HINTS[code]}"
            if state in _USELESS_STATES:
                self._dropped = monotonic()
            is_taken = isinstance(cause, sqlite3.IntegrityError | psycopg.IntegrityError)
            if is_taken or state in _CONFLICTS:
                raise ConflictError(f"another process was first: {reason}") from error
            is_full = code == sqlite3.SQLITE_FULL or state == _DISK_FULL
            kind = DiskFullError if is_full else StorageError
            name = self.engine.url.set(query={})  # which may hold a password, too
            raise kind(f"the database {name.render_as_string()} failed: {reason}") from error
        finally:
            if self._is_closed:
                self.engine.pool.dispose()

    def try_to_write(self, table: Table, row: Mapping[str, Any], blob: str) -> None:
        """Insert and delete a row with a MiB of data in one transaction, to test the disk.

        Raises StorageError if that fails, such as on a full disk.

        Args:
            table: The table; its primary key, text or binary, comes first in the row.
            row: The values of the row except for the blob.
            blob: The column for a MiB of random bytes.
        """
        name, mark = next(iter(row.items()))
        with self._transaction(writes=True) as connection:
            check_commits(connection)
            connection.execute(insert(table).values({**row, blob: os.urandom(1 << 20)}))
            connection.execute(delete(table).where(table.c[name] == mark))

    def close(self) -> None:
        """Close the database connections; busy ones are closed when their thread finishes."""
        self._is_closed = True
        self.engine.pool.dispose()  # only this pool: a connection returns to its own pool
