"""Classification of state errors as a damaged, busy or temporarily unusable state.

Files on devices suffer from flipped bits, half-written pages and other programs. If the SDK cannot
have written the contents, the condition is `state_corrupt`; parser errors never reach the app.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache

from client_sdk.errors import StateBusyError, StateError
from client_sdk.storage.schema import create_tables
from rappor_core.errors import RapporError

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
PLACE = frozenset(  # problems of the disk, system or directory; the file may be intact
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_PROTOCOL,
    }
)
UNKNOWN_TO_LIBRARY = ("syntax error", "unrecognized token", "no such function")  # SQLite is too old
PARSERS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RapporError)
META = {"secret": bytes, "secret_check": bytes, "generation": int, "send_at": float}
META |= {"budget": float, "failing_since": float, "unscrubbed": int}
META |= {"unit": str, "stop": str}  # "unit:" or "stop:" precedes a metric's name
LENGTHS = {"secret": 32, "secret_check": 8}

LedgerCheck = Callable[[sqlite3.Connection], None]

# Conditions for rows that this SDK never writes. The cross-checks detect names with a flipped bit.
NEVER = (
    "SELECT 1 FROM entries WHERE line NOT IN (SELECT name FROM lines)",
    "SELECT 1 FROM entries WHERE length(digest) <> 16 OR reports > 1 << 31",
    "SELECT 1 FROM sources WHERE substr(metric, 1, instr(metric || '/', '/') - 1) NOT IN "
    "(SELECT name FROM lines)",
    "SELECT 1 FROM sources WHERE length(params_id) <> 32 OR params_id GLOB '*[^0-9a-f]*'",
    "SELECT 1 FROM sources WHERE cohort NOT BETWEEN 0 AND 65535",
    "SELECT 1 FROM queue WHERE day NOT BETWEEN 0 AND 2932896 OR length(bits) = 0",  # 9999-12-31
    "SELECT 1 FROM queue WHERE source NOT IN (SELECT id FROM sources)",
    "SELECT 1 FROM queue GROUP BY source HAVING count(DISTINCT length(bits)) > 1",
    "SELECT 1 FROM batches WHERE reports < 1 OR length(batch_id) <> 16",
)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert every error in a block that reads a state into a StateError."""
    try:
        yield
    except StateError:
        raise
    except (sqlite3.Error, OSError, *PARSERS) as error:
        raise trouble(path, error) from error


def trouble(path: str, error: Exception) -> StateError:
    """Return the StateError for an error while reading or writing the state at `path`."""
    if isinstance(error, StateError):
        return error
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError | sqlite3.ProgrammingError):  # the latter if closed meanwhile
        return unavailable(path, text)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in BUSY:
            return busy(path)
        places = path, os.path.dirname(path) or "."
        writable = code == sqlite3.SQLITE_READONLY and all(os.access(p, os.W_OK) for p in places)
        if code in PLACE and not writable:  # otherwise the file's header is damaged
            return unavailable(path, text)
        if code == sqlite3.SQLITE_ERROR and any(words in text for words in UNKNOWN_TO_LIBRARY):
            return unavailable(path, f"SQLite {sqlite3.sqlite_version}: {text}")
    return damaged(path, text)


def busy(path: str) -> StateBusyError:
    """Return the error for a state that another connection has locked."""
    return StateBusyError(f"{path} is locked by another process or thread")


def damaged(path: str, sign: str) -> StateError:
    """Return the error for a file that this SDK cannot have written."""
    return StateError(
        f"{path} is damaged ({sign}); call reset() to start over, with a new secret, which spends "
        "the privacy budget again",
        "state_corrupt",
    )


def check_contents(
    database: sqlite3.Connection, path: str, check_ledger: LedgerCheck | None = None
) -> None:
    """Read every page, and check all data that is parsed later. Raises StateError if damaged.

    `check_ledger` decodes the contents of the ledger, and raises the errors of its parsers.
    """
    with reading(path):
        result = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if result != "ok":
            raise damaged(path, str(result))
        expected, wrong = reference()
        if _schema_of(database) != expected:
            raise damaged(path, "its schema is different")
        types = (f"SELECT 1 FROM {table} WHERE {which}" for table, which in wrong.items())  # noqa: S608
        for query in (*types, *NEVER):
            if database.execute(f"{query} LIMIT 1").fetchone() is not None:
                raise damaged(path, "it contains data that no version writes")
        find = "SELECT value FROM meta WHERE name = ?"
        for name, value in database.execute("SELECT name, value FROM meta").fetchall():
            fits = type(value) is META[name.partition(":")[0]]  # and the name finds the row
            fits &= database.execute(find, (name,)).fetchone() == (value,)
            fits &= type(value) is not bytes or len(value) == LENGTHS[name]
            if not fits or (type(value) is int and value < 0):
                raise ValueError(f"meta: {name}")
        if check_ledger is not None:
            check_ledger(database)
        for name in ("counters", "notes", "periods", "sources", "tombstones", "used_up"):
            for _ in database.execute(f"SELECT * FROM {name}"):  # noqa: S608 (names from above)
                pass  # reading each text raises an error for invalid UTF-8


def _schema_of(database: sqlite3.Connection) -> set[tuple[str, str, str, str]]:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    return {(*row[:3], " ".join(str(row[3]).split())) for row in database.execute(query)}


@cache
def reference() -> tuple[set[tuple[str, str, str, str]], dict[str, str]]:
    """Return a new file's schema and, by table, an SQL condition that finds wrong types."""
    with closing(sqlite3.connect(":memory:")) as database:
        create_tables(database)
        schema = _schema_of(database)
        tables = [name for kind, name, *_ in schema if kind == "table"]
        return schema, {table: _wrong_types(database, table) for table in tables}


def _wrong_types(database: sqlite3.Connection, table: str) -> str:
    wrong = [
        f"typeof({name}) <> '{kind.lower()}'"
        if key or not_null
        else f"typeof({name}) NOT IN ('{kind.lower()}', 'null')"
        for _, name, kind, not_null, _, key in database.execute(f"PRAGMA table_info({table})")
        if kind
    ]
    return " OR ".join(wrong) or "0"


def unavailable(path: str, text: object) -> StateError:
    """Return the error for a file or directory that is temporarily unusable."""
    return StateError(f"{path} cannot be used: {text}; it is tried again every minute")
