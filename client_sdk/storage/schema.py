"""The state file: its tables, its versions, and its connections.

The file uses WAL with synchronous=NORMAL. A commit survives the end of the process at any moment
(it is in the system's page cache), but a power loss may undo the last commits. So `StateFile.sync`
is called before any data leaves the device. No statement needs more than SQLite 3.24 (2018).
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache

from client_sdk.errors import StateError

SCHEMA_VERSION = 5
FIRST_VERSION = 4  # from SDK 0.3.0, the first published version; older files are rejected
MEMORY = ":memory:"  # instead of a path: a database in memory
APPLICATION_ID = 0x52415050  # "RAPP"
PAGE_BYTES = 1024  # small, because a commit writes each page that it changed
WAL_BYTES = 1 << 19  # the size to which a longer write-ahead log is truncated on reuse
BUSY_SECONDS = 1.0  # the maximum wait for another process when a file is created or upgraded

BATCHES = """
CREATE TABLE batches (
    id INTEGER PRIMARY KEY, batch_id BLOB NOT NULL UNIQUE, reports INTEGER NOT NULL,
    last_day INTEGER NOT NULL, body BLOB NOT NULL
)
"""
TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE lines (
    name TEXT PRIMARY KEY, agreed TEXT NOT NULL, past_values INTEGER NOT NULL,
    past_cost REAL NOT NULL, past_spent REAL NOT NULL, past_reports INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, line TEXT NOT NULL, digest BLOB NOT NULL UNIQUE,
    params TEXT NOT NULL, cost REAL NOT NULL, reports INTEGER NOT NULL
);
CREATE TABLE periods (
    metric TEXT, period INTEGER, reports INTEGER NOT NULL, PRIMARY KEY (metric, period)
) WITHOUT ROWID;
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, metric TEXT NOT NULL, params_id TEXT NOT NULL,
    cohort INTEGER NOT NULL, UNIQUE (metric, params_id, cohort)
);
CREATE TABLE queue (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, entry INTEGER NOT NULL,
    day INTEGER NOT NULL, bits BLOB NOT NULL
);
{BATCHES};
CREATE TABLE counters (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tombstones (
    id INTEGER PRIMARY KEY, day INTEGER NOT NULL, reason TEXT NOT NULL, ledger TEXT NOT NULL
);
CREATE TABLE notes (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE used_up (
    metric TEXT, first INTEGER, last INTEGER NOT NULL, PRIMARY KEY (metric, first)
) WITHOUT ROWID
"""


def connect(path: str, patience: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open a state file; create the tables if it is new, or upgrade it from version 4.

    Args:
        path: The file, or MEMORY.
        patience: The maximum number of seconds that each later statement waits for another process.

    Raises:
        StateError: The file has an unknown schema version.
        sqlite3.Error, OSError: The file is locked, damaged or cannot be created.
    """
    if path != MEMORY:
        _create_private(path)
    database = _open(path, patience)
    try:
        if path == MEMORY and hasattr(database, "deserialize"):  # SQLite 3.36 or later
            database.deserialize(_blank_image())
        _ensure_tables(database, path)
        wait_for(database, patience)
    except BaseException:
        database.close()
        raise
    return database


def create_compact(path: str, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a state file that is as small as possible, completely or not at all.

    `fill` inserts the rows, in the transaction that creates the tables. The next `connect` opens
    the file like any other. Raises sqlite3.Error or OSError if that fails, such as on a full disk.
    """
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}"
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        database = sqlite3.connect(draft, isolation_level=None)
        try:
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            database.execute("PRAGMA journal_mode = MEMORY").fetchall()
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE")
            create_tables(database)
            fill(database)
            database.execute("COMMIT")
        finally:
            database.close()
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def create_tables(database: sqlite3.Connection) -> None:
    """Create the tables, within the caller's transaction."""
    for statement in TABLES.split(";"):
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def wait_for(database: sqlite3.Connection, seconds: float) -> None:
    """Set how long each statement waits for another process, in seconds."""
    database.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}").fetchall()


@cache
def _blank_image() -> bytes:
    with closing(sqlite3.connect(MEMORY)) as database:
        database.execute("PRAGMA page_size = 512")  # small, because fleets have many devices
        create_tables(database)
        return database.serialize()


def _create_private(path: str) -> None:
    """Create the file, readable only by its owner; SQLite gives its other files the same mode.

    The file is created under a different name and linked, because closing a file drops this
    process's locks on it. So the state itself must never be opened and closed outside SQLite ("How
    To Corrupt An SQLite Database File", section 2.2).
    """
    if os.path.exists(path):
        return
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}"
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT, 0o600))
    try:
        with suppress(FileExistsError):  # another process was first
            try:
                os.link(draft, path)
            except FileExistsError:
                raise
            except (OSError, NotImplementedError):  # no hard links, as for apps on Android
                # left open on purpose, once per installation: see above
                os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    finally:
        os.unlink(draft)


def _open(path: str, patience: float) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False
    )
    try:
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        database.execute("PRAGMA synchronous = NORMAL")
        _enter_wal(database, patience)
        database.execute("PRAGMA secure_delete = ON")
        database.execute("PRAGMA wal_autocheckpoint = 0").fetchall()  # the sending thread does this
        database.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}").fetchall()
    except BaseException:  # including a message with invalid UTF-8
        database.close()
        raise
    return database


def _enter_wal(database: sqlite3.Connection, patience: float) -> None:
    """Switch to WAL; retry while others open the same file, because SQLite does not wait."""
    deadline = time.monotonic() + patience
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _ensure_tables(database: sqlite3.Connection, path: str) -> None:
    ask = "PRAGMA user_version"  # 0 in a file that was never used
    if database.execute(ask).fetchone()[0] == SCHEMA_VERSION:
        return
    wait_for(database, BUSY_SECONDS)
    database.execute("BEGIN IMMEDIATE")  # repeated at the next start after a power loss
    try:
        version = int(database.execute(ask).fetchone()[0])  # another process may have been faster
        if version < 0:
            raise sqlite3.DatabaseError(f"schema version {version}")
        if version not in (0, FIRST_VERSION, SCHEMA_VERSION):
            raise StateError(
                f"{path} has schema version {version}; this SDK knows {SCHEMA_VERSION}: "
                "use the version of the app that wrote it"
                + (", or a later one" if version > SCHEMA_VERSION else ""),
                "state_newer",
            )
        if version == 0:
            create_tables(database)
        elif version == FIRST_VERSION:
            _upgrade(database)
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _upgrade(database: sqlite3.Connection) -> None:
    """Upgrade a file of version 4, within the caller's transaction: batches become binary.

    If the collector already counted a batch as JSON, it rejects the id, and the batch is dropped.
    """
    import gzip  # this and the next two are needed once per installation

    from rappor_core.wire.binary import encode_binary
    from rappor_core.wire.json import decode_json

    def in_binary(body: bytes) -> bytes:
        batch = decode_json(gzip.decompress(body)).ungrouped()
        return gzip.compress(encode_binary(batch), mtime=0)

    rows = database.execute("SELECT id, batch_id, reports, last_day, json, body FROM batches")
    binary = [(*row, in_binary(body) if is_json else body) for *row, is_json, body in rows]
    database.execute("DROP TABLE batches")
    database.execute(BATCHES)
    database.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", binary)
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
