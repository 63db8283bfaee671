"""The positions up to which a broker's messages are counted, stored with the counters.

A consumer advances a position in the same transaction that counts the messages before it, and only
if the stored position is the expected one. So each message is counted once, regardless of which
consumer counts it, how often it is delivered, and when a consumer is killed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Table, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from collector.errors import PositionError
from collector.store.models import broker_positions, broker_skipped, broker_state

_ONE = 1  # the id of the state's only row


class Move(NamedTuple):
    """A change of a partition's position from `before` to `after`."""

    partition: int
    before: int
    after: int


class Skipped(NamedTuple):
    """A range of consecutive messages that were not counted."""

    partition: int
    first: int
    last: int  # inclusive
    reason: str  # at most 32 characters


def begin(connection: Connection, today: int) -> None:
    """Record that a broker feeds this database, unless it is already recorded."""
    row = {"id": _ONE, "counted_before": today, "ignored_before": -1, "refused": 0}
    _insert_missing(connection, broker_state, [row])


def leave(connection: Connection) -> None:
    """Record that no broker feeds this database anymore. The positions are preserved."""
    connection.execute(delete(broker_state))


def read_state(connection: Connection) -> Row[Any] | None:
    """Return the row of `broker_state`; None if no broker feeds this database."""
    return connection.execute(select(broker_state)).one_or_none()


def count_before(connection: Connection, day: int, *, back: bool = False) -> None:
    """Record that every message received before this day is counted.

    `back` withdraws the record for this day and later days, because a clock was ahead.
    """
    recorded = broker_state.c.counted_before
    is_new = recorded > day if back else recorded < day
    connection.execute(update(broker_state).where(is_new).values(counted_before=day))


def ignore_before(connection: Connection, day: int) -> None:
    """Stop counting messages that were received before this day."""
    behind = broker_state.c.ignored_before < day
    connection.execute(update(broker_state).where(behind).values(ignored_before=day))


def add_refused(connection: Connection, reports: int) -> None:
    """Count reports that were acknowledged, and later rejected."""
    if reports:
        total = broker_state.c.refused + reports
        connection.execute(update(broker_state).values(refused=total))


def positions(connection: Connection, topic: str) -> dict[int, int]:
    """Return the first uncounted offset in each partition."""
    statement = select(broker_positions.c.partition, broker_positions.c.next_offset).where(
        broker_positions.c.topic == topic
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def start_positions(connection: Connection, topic: str, starts: dict[int, int]) -> None:
    """Store start positions for partitions that have no position yet."""
    rows = [{"topic": topic, "partition": p, "next_offset": at} for p, at in starts.items()]
    if rows:
        _insert_missing(connection, broker_positions, rows)


def move(connection: Connection, topic: str, moves: Iterable[Move]) -> None:
    """Advance positions, sorted by partition to avoid deadlocks.

    Raises PositionError if a position is unexpected, because a different consumer has counted.
    """
    for step in sorted(moves):
        changed = connection.execute(
            update(broker_positions)
            .where(
                broker_positions.c.topic == topic,
                broker_positions.c.partition == step.partition,
                broker_positions.c.next_offset == step.before,
            )
            .values(next_offset=step.after)
        )
        if changed.rowcount != 1:
            raise PositionError(
                f"partition {step.partition} of {topic!r} is no longer at offset {step.before}: "
                "another consumer counts it"
            )


def note_skipped(connection: Connection, topic: str, skipped: Iterable[Skipped]) -> None:
    """Record messages that were skipped."""
    names = [column.name for column in broker_skipped.columns]
    rows = [dict(zip(names, (topic, *run), strict=True)) for run in skipped]
    if rows:
        connection.execute(insert(broker_skipped), rows)


def count_skipped(connection: Connection) -> int:
    """Return the number of messages that were skipped so far, over all topics."""
    many = broker_skipped.c.last_offset - broker_skipped.c.first_offset + 1
    return int(connection.execute(select(func.coalesce(func.sum(many), 0))).scalar_one())


def _insert_missing(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)
