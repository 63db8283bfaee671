"""The statements of a group commit: few, set-based, and without SQLAlchemy's overhead.

Every statement is a round trip to PostgreSQL. In both databases it is also a moment in which the
thread that reads requests may take over the interpreter. So related rows go into one statement,
regardless of their number. All other code in this package uses SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Connection

from collector.store.batches import BatchRow
from collector.store.counters import NO_REPORTS, Cell, CohortSum
from collector.store.database import COUNTERS_LOCK, GATE_LOCK
from rappor_server.database import COMMIT_SETTING, refuse_unsafe_commits

_ROWS_AT_ONCE = 100  # older versions of SQLite allow 999 parameters per statement

# All text in these statements is constant; values are bound parameters.
_OPEN = (
    f"SELECT version, {', '.join(BatchRow._fields)} FROM state "  # noqa: S608
    "LEFT JOIN batches ON batch_hash"
)
_READ = (
    "SELECT series_id, day, cohort, num_reports, counts FROM counters "
    "WHERE (series_id, day, cohort) IN "
)
_WRITE = (
    "INSERT INTO counters (series_id, day, cohort, num_reports, counts) {values} "
    "ON CONFLICT (series_id, day, cohort) "
    "DO UPDATE SET num_reports = excluded.num_reports, counts = excluded.counts"
)


Opened = tuple[int, dict[bytes, BatchRow]]  # the state's version, and known batches


def statements(*, is_postgresql: bool) -> SqliteStatements | PostgresqlStatements:
    """Return the statements for SQLite or for PostgreSQL."""
    return PostgresqlStatements() if is_postgresql else SqliteStatements()


class SqliteStatements:
    """The statements for SQLite; its single writer (`BEGIN IMMEDIATE`) replaces the gate."""

    def open(self, connection: Connection, ids: Sequence[bytes]) -> Opened:
        """Return the version of the state, and the batches that were counted before, by hash."""
        driver = _driver(connection)
        rows: list[Any] = []
        for some in _chunks(ids):
            rows += driver.execute(f"{_OPEN} IN ({_marks(some)})", some)
        return _opened(rows)

    def save(
        self, connection: Connection, added: Mapping[Cell, CohortSum], batches: Sequence[BatchRow]
    ) -> None:
        """Store batches, and add sums to the counters, both sorted by key.

        Raises CounterFullError, or the driver's IntegrityError if a batch id is known.
        """
        driver = _driver(connection)
        for rows in _chunks(batches):
            driver.execute(f"INSERT INTO batches {_tuples(rows)}", _flat(rows))
        for cells in _chunks(list(added)):
            stored = driver.execute(f"{_READ} ({_tuples(cells)})", _flat(cells))
            totals = _totals({cell: added[cell] for cell in cells}, stored)
            driver.execute(_WRITE.format(values=_tuples(totals)), _flat(totals))


class PostgresqlStatements:
    """The statements for PostgreSQL, with one array per column; fixed SQL is prepared once.

    Only one writer at a time runs from reading the counters to the commit.
    """

    _gate = f"SELECT {COMMIT_SETTING}, pg_advisory_xact_lock_shared(%b)"
    _turn = "SELECT pg_advisory_xact_lock(%b)"
    _cells = "%b::int[], %b::int[], %b::int[]"
    _read = f"{_READ} (SELECT * FROM unnest({_cells}))"  # noqa: S608
    _rows = f"SELECT * FROM unnest({_cells}, %b::bigint[], %b::bytea[])"  # noqa: S608
    _write = _WRITE.format(values=_rows)
    _remember = (
        "INSERT INTO batches "
        "SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::int[], %b::int[], %b::bytea[])"
    )

    def open(self, connection: Connection, ids: Sequence[bytes]) -> Opened:
        """Wait for transactions that close days, then read as `SqliteStatements.open` does.

        Raises StorageError if the commit would not be synced.
        """
        cursor = _driver(connection).cursor(binary=True)
        row = cursor.execute(self._gate, (GATE_LOCK,)).fetchone()
        refuse_unsafe_commits(row[0])
        return _opened(cursor.execute(f"{_OPEN} = ANY(%b)", (list(ids),)).fetchall())

    def save(
        self, connection: Connection, added: Mapping[Cell, CohortSum], batches: Sequence[BatchRow]
    ) -> None:
        """Save like `SqliteStatements.save`."""
        cursor = _driver(connection).cursor(binary=True)
        if batches:
            cursor.execute(self._remember, _columns(batches))
        if added:
            cursor.execute(self._turn, (COUNTERS_LOCK,))
            stored = cursor.execute(self._read, _columns(list(added))).fetchall()
            cursor.execute(self._write, _columns(_totals(added, stored)))


_Row = TypeVar("_Row")


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _opened(rows: Iterable[Any]) -> Opened:
    version, batches = -1, dict[bytes, BatchRow]()
    for version, *batch in rows:  # noqa: B007 (the same in every row)
        if batch[0] is not None:
            batches[batch[0]] = BatchRow(*batch)
    return version, batches


def _totals(added: Mapping[Cell, CohortSum], stored: Iterable[Any]) -> list[tuple[Any, ...]]:
    before = {row[:3]: CohortSum(*row[3:]) for row in stored}
    rows: list[tuple[Any, ...]] = []
    for cell, reports in added.items():
        total = before.get(cell, NO_REPORTS).plus(reports)
        rows.append((*cell, total.num_reports, total.lanes))
    return rows


def _chunks(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))


def _marks(row: Sequence[Any]) -> str:
    return ",".join("?" * len(row))


def _tuples(rows: Sequence[Sequence[Any]]) -> str:
    return "VALUES " + ",".join([f"({_marks(rows[0])})"] * len(rows))


def _flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return list(chain.from_iterable(rows))


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
