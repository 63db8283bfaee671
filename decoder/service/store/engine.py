"""Connections and transactions, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from decoder.service.errors import ConflictError, SettingsError, StorageError

# Advisory locks of PostgreSQL, fixed numbers of our own ("decode").
MIGRATION_LOCK = 0x6465_636F_6465
CLAIM_LOCK = MIGRATION_LOCK + 1
_SQLITE_NOW = "SELECT (julianday('now') - 2440587.5) * 86400.0"
_POSTGRESQL_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


def parse_url(database: str) -> URL:
    """Check a database URL. Raises SettingsError that shows it without its password."""
    try:
        url = make_url(database)
    except ArgumentError:
        raise SettingsError(
            f"database {database.partition('@')[0].partition('://')[0]!r}...: not a URL such as "
            "sqlite:///rappor-decoder.sqlite or postgresql+psycopg://user@host/name"
        ) from None
    if url.get_backend_name() == "postgresql" and url.drivername != "postgresql+psycopg":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise SettingsError(f"database {url.drivername!r}: use sqlite or postgresql+psycopg")
    return url


def make_engine(database: str, *, pool_size: int = 5, timeout: float = 5.0) -> Engine:
    """An engine; no connection is made yet.

    pool_size: the most connections to PostgreSQL.  timeout: seconds to wait for a lock or one.
    """
    url = parse_url(database)
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url, timeout)
        return _postgresql(url, pool_size, timeout)
    except NoSuchModuleError as error:
        raise SettingsError(f"database {url.drivername!r}: {error}") from error


def _sqlite(url: URL, timeout: float) -> Engine:
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
    """Make an empty file for its owner alone, unless it is there; SQLite's WAL follows its mode."""
    with suppress(OSError):  # what is wrong with the place, SQLite says when it opens the file
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """WAL with FULL sync: a commit that returned is on the disk. The driver must not begin."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """Writers take the one write lock at once, so that they wait instead of failing later."""
    write = connection.get_execution_options().get("decoder_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgresql(url: URL, pool_size: int, timeout: float) -> Engine:
    options = (  # a claim must see what was committed before it got its lock: READ COMMITTED
        f"-c synchronous_commit=on -c lock_timeout={int(timeout * 1000)} "
        "-c idle_in_transaction_session_timeout=60000 "
        r"-c default_transaction_isolation=read\ committed"
    )
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout,
        pool_pre_ping=True,
        connect_args={"connect_timeout": max(2, int(timeout)), "options": options},
    )


class Database:
    """Transactions on one engine. Every failure of the database itself is a StorageError."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_postgresql = engine.dialect.name == "postgresql"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view of the tables."""
        level: Any = {"isolation_level": "REPEATABLE READ"} if self.is_postgresql else {}
        with self._transaction(**level) as connection:
            yield connection

    @contextmanager
    def change(self) -> Iterator[Connection]:
        """A transaction that writes; on SQLite it holds the one write lock from its start."""
        with self._transaction(decoder_write=True) as connection:
            yield connection

    @contextmanager
    def _transaction(self, **options: Any) -> Iterator[Connection]:
        try:
            with (
                self.engine.connect().execution_options(**options) as connection,
                connection.begin(),
            ):
                yield connection
        except (DBAPIError, PoolTimeoutError, sqlite3.Error, psycopg.Error) as error:
            if _is_conflict(error):
                raise ConflictError(f"another process was first: {describe(error)}") from error
            raise StorageError(f"the database failed: {describe(error)}") from error

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()


def now(connection: Connection) -> float:
    """Seconds since 1970 by the clock of the database: one clock for the leases of all workers."""
    statement = _POSTGRESQL_NOW if connection.dialect.name == "postgresql" else _SQLITE_NOW
    return float(connection.execute(text(statement)).scalar_one())


def lock(connection: Connection, number: int) -> None:
    """Take an advisory lock of PostgreSQL until the transaction ends; SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def _is_conflict(error: Exception) -> bool:
    """A row that another process inserted first, or a deadlock with it that PostgreSQL broke."""
    cause = _cause(error)
    if isinstance(cause, sqlite3.IntegrityError | psycopg.IntegrityError):
        return True
    return getattr(cause, "sqlstate", None) in ("40P01", "40001")


def describe(error: Exception) -> str:
    """A database error in one short line, without the statement and its values."""
    cause = _cause(error)
    first = str(cause).strip().partition("\n")[0]
    return f"{type(cause).__name__}: {first[:200]}"


def _cause(error: Exception) -> BaseException:
    """The driver's own error."""
    return error.orig if isinstance(error, DBAPIError) and error.orig else error
