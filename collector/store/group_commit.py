"""The statements of a group commit: few, set by set, and past SQLAlchemy's own costs.

Every statement is a round trip to PostgreSQL, and in both databases a moment in which the thread
that reads requests may take the interpreter over; so what belongs together goes in one statement,
whatever its number of rows. Everything else in this package is written with SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection

from collector.errors import ConflictError
from collector.store.batches import BatchRow, KnownBatch
from collector.store.counters import CounterCache, CounterRow
from collector.store.database import GATE_LOCK, SHARD_LOCKS
from rappor_server.database import COMMIT_SETTINGS, refuse_unsafe_commits

_ROWS_AT_ONCE = 100  # SQLite: 999 parameters a statement in its older versions

# All text in these statements is our own; values travel beside it.
_COUNTER = ", ".join(CounterRow._fields)
_KNOWN = f"batch_hash, {', '.join(KnownBatch._fields)}"
_READ = f"SELECT version, {_KNOWN} FROM state LEFT JOIN batches ON batch_hash"  # noqa: S608
_SET = (
    "UPDATE counters AS c SET num_reports = v.num_reports, counts = v.counts FROM {values} "
    "WHERE c.series_id = v.series_id AND c.day = v.day AND c.shard = v.shard "
    "AND c.cohort = v.cohort AND c.num_reports = v.before"
)


class Opened(NamedTuple):
    """What a writer's transaction reads first. version: of the state, which grows when metrics
    change or days close.

    known: those of the batches that were counted before, by id.
    """

    version: int
    known: dict[bytes, KnownBatch]


class GroupStatements(Protocol):
    """The statements of a writer's transaction."""

    def open(self, connection: Connection, cache: CounterCache, ids: Sequence[bytes]) -> Opened:
        """Hold off who closes days, take a shard for this transaction, and look at the batches.

        A shard is written by one transaction at a time; where all are taken, wait for one. Raises
        StorageError where the commit to come would not last.
        """

    def save(
        self,
        connection: Connection,
        counters: Sequence[CounterRow],
        batches: Sequence[BatchRow],
    ) -> None:
        """Store rows, which are in the order of their keys.

        Raises ConflictError where a counter is no longer what it was; an id of a batch that is
        there already raises the driver's IntegrityError.
        """


def statements(*, is_postgresql: bool) -> GroupStatements:
    """The statements for SQLite or for PostgreSQL."""
    return _Postgresql() if is_postgresql else _Sqlite()


class _Sqlite:
    """SQLite has one writer at a time: `BEGIN IMMEDIATE` was the gate, and one shard does."""

    _named = ", ".join(f"column{n} AS {name}" for n, name in enumerate(CounterRow._fields, 1))
    _values = f"(SELECT {_named} FROM (VALUES %s)) AS v"  # noqa: S608
    _insert = "INSERT INTO %s VALUES %s"

    def open(self, connection: Connection, cache: CounterCache, ids: Sequence[bytes]) -> Opened:
        cache.move_to(0)
        driver = _driver(connection)
        rows: list[Any] = []
        for chunk in _chunks(ids):
            rows += driver.execute(f"{_READ} IN ({_marks(chunk)})", chunk)
        return _opened(rows)

    def save(
        self,
        connection: Connection,
        counters: Sequence[CounterRow],
        batches: Sequence[BatchRow],
    ) -> None:
        driver = _driver(connection)
        old, new = _old_and_new(counters)
        for rows in _chunks(old):
            statement = _SET.format(values=self._values % _tuples(rows))
            _check_all_were_set(driver.execute(statement, _flat(rows)).rowcount, rows)
        for table, fresh in (("counters", new), ("batches", batches)):
            for some in _chunks(fresh):
                driver.execute(self._insert % (table, _tuples(some)), _flat(some))


class _Postgresql:
    """Rows travel as one array a column; texts that never change are prepared once."""

    _gate = f"SELECT {COMMIT_SETTINGS}, pg_advisory_xact_lock_shared(%b)"
    _try = "pg_try_advisory_xact_lock(%b)"
    _wait = "SELECT pg_advisory_xact_lock(%b)"
    _arrays = "%b::int[], %b::int[], %b::int[], %b::int[], %b::bigint[], %b::bytea[]"
    _set = _SET.format(values=f"unnest({_arrays}, %b::bigint[]) AS v({_COUNTER})")
    _insert = f"INSERT INTO counters SELECT * FROM unnest({_arrays})"  # noqa: S608
    _remember = (
        "INSERT INTO batches "
        "SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::int[], %b::int[], %b::bytea[])"
    )

    def open(self, connection: Connection, cache: CounterCache, ids: Sequence[bytes]) -> Opened:
        cursor = _driver(connection).cursor(binary=True)
        first = SHARD_LOCKS + cache.shard
        row = cursor.execute(f"{self._gate}, {self._try}", (GATE_LOCK, first)).fetchone()
        refuse_unsafe_commits(*row[:2])
        if not row[3]:
            cache.move_to(self._another_shard(cursor, cache))
        return _opened(cursor.execute(f"{_READ} = ANY(%b)", (list(ids),)).fetchall())

    def _another_shard(self, cursor: Any, cache: CounterCache) -> int:
        """One that nobody writes; where there is none, wait for the one that is taken."""
        taken = cache.shard
        for step in range(1, cache.num_shards):
            shard = (taken + step) % cache.num_shards
            if cursor.execute(f"SELECT {self._try}", (SHARD_LOCKS + shard,)).fetchone()[0]:
                return shard
        cursor.execute(self._wait, (SHARD_LOCKS + taken,))
        return taken

    def save(
        self,
        connection: Connection,
        counters: Sequence[CounterRow],
        batches: Sequence[BatchRow],
    ) -> None:
        cursor = _driver(connection).cursor()
        old, new = _old_and_new(counters)
        if old:
            _check_all_were_set(cursor.execute(self._set, _columns(old)).rowcount, old)
        if new:
            cursor.execute(self._insert, _columns(new))
        if batches:
            cursor.execute(self._remember, _columns(batches))


_Row = TypeVar("_Row")


def _driver(connection: Connection) -> Any:
    """The driver's own connection, in SQLAlchemy's transaction."""
    return connection.connection.driver_connection


def _opened(rows: Any) -> Opened:
    """From rows of a state version, and a batch or nulls."""
    version, known = -1, dict[bytes, KnownBatch]()
    for version, *batch in rows:  # noqa: B007 (the same in every row)
        if batch[0] is not None:
            known[batch[0]] = KnownBatch(*batch[1:])
    return Opened(version, known)


def _old_and_new(
    rows: Sequence[CounterRow],
) -> tuple[list[CounterRow], list[tuple[Any, ...]]]:
    """Rows to change, and rows to insert, as the table has them."""
    return [row for row in rows if row.before], [row[:-1] for row in rows if not row.before]


def _check_all_were_set(changed: int, rows: Sequence[Any]) -> None:
    if changed != len(rows):
        raise ConflictError("another process writes the same counters")


def _chunks(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))


def _marks(row: Sequence[Any]) -> str:
    return ",".join("?" * len(row))


def _tuples(rows: Sequence[Sequence[Any]]) -> str:
    return ",".join([f"({_marks(rows[0])})"] * len(rows))


def _flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return list(chain.from_iterable(rows))


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
