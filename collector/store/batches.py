"""The remembered batches, so that a batch which is sent again is not counted again.

The id of a batch is the only thing in its body that cannot be guessed. So the database holds it
nowhere: a hash of it finds the batch, and the digest of the body is keyed by it. Who has the
database alone cannot tell whether a body that they made up is one that was sent.

Partitions, in PostgreSQL, are dropped whole when their batches have expired. Whoever counts
reports writes to the newest partition, whatever the clock of its host says, and a new one is opened
by the gate's one holder, when no writer is in a transaction. So two that count one batch at a time
meet in one partition, where its hash is the primary key; what an older partition holds was
committed before, and a look-up goes through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any, NamedTuple

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, delete, func, insert, select, text, update
from sqlalchemy.exc import OperationalError

from collector.errors import SettingsError
from collector.store.models import batch_partitions, batches

_HASH_BYTES = 16
_NAME_OF_ID, _NAME_OF_BODY = b"rappor batch id\x00", b"rappor batch body\x00"
_SLICES = 256  # by the first byte of the hash: short transactions


class KnownBatch(NamedTuple):
    """A remembered batch, with the fields of BatchRow."""

    digest: bytes
    num_reports: int
    results: bytes


class BatchRow(NamedTuple):
    """A row about a counted batch. batch_hash, digest: 16 bytes. expires: the last day on which
    one of its days may be open.

    results: a code for each report, or empty where all were accepted.
    """

    batch_hash: bytes
    digest: bytes
    expires: int
    num_reports: int
    results: bytes


def hash_of_id(batch_id: bytes) -> bytes:
    """The key under which a batch is remembered, 16 bytes: SHA-256 of a fixed name and the batch
    id, cut."""
    return sha256(_NAME_OF_ID + batch_id).digest()[:_HASH_BYTES]


def keyed_digest(batch_id: bytes, digest: bytes) -> bytes:
    """A digest of a batch's body, keyed by the batch id, 16 bytes: equal for the same id and
    body only.

    batch_id, digest: 16 bytes each, so that no two pairs give the same text.
    """
    return sha256(_NAME_OF_BODY + batch_id + digest).digest()[:_HASH_BYTES]


def forget_batches(
    transaction: Callable[[], AbstractContextManager[Connection]],
    today: int,
    *,
    is_postgresql: bool,
) -> bool:
    """Delete the remembered batches whose days are all closed, in short transactions; return
    whether all are deleted.

    PostgreSQL drops whole partitions, each once the last of its batches has expired.
    """
    if is_postgresql:
        return drop_expired(transaction, today)
    for some in _slices():
        with transaction() as connection:
            connection.execute(delete(batches).where(batches.c.expires < today, *some))
    return True


def prolong_batches(connection: Connection, days: int) -> None:
    """Remember all batches for more days, because days stay open for longer."""
    if connection.dialect.name == "postgresql":
        prolong(connection, days)
    else:
        connection.execute(update(batches).values(expires=batches.c.expires + days))


def _slices() -> Iterator[tuple[Any, ...]]:
    for first in range(_SLICES):
        upper = (batches.c.batch_hash < bytes([first + 1]),) if first + 1 < _SLICES else ()
        yield (batches.c.batch_hash >= bytes([first]), *upper)


PARTITION_DAYS = 7  # that a partition takes batches
_FAR_DAYS = 3 * PARTITION_DAYS  # one that expires so much later than it need was of a wrong clock
_MOST = 32  # partitions, beyond which a wrong clock makes no more of them
_LOCK_MILLISECONDS = 200  # for which who counts reports may have to wait for a drop

Transaction = Callable[[], AbstractContextManager[Connection]]


def check_owner(connection: Connection) -> None:
    """Raises SettingsError where the role may not open and drop partitions of `batches`."""
    if connection.dialect.name != "postgresql":
        return
    statement = (
        "SELECT current_user, pg_get_userbyid(relowner), "
        "pg_has_role(current_user, relowner, 'USAGE') "
        "FROM pg_class WHERE oid = to_regclass('batches')"
    )
    row = connection.execute(text(statement)).one_or_none()
    if row is not None and not row[2]:
        raise SettingsError(
            f"the role {row[0]!r} does not own the table 'batches', of which it makes and drops "
            f"partitions: run REASSIGN OWNED BY {row[1]} TO {row[0]} in this database where "
            f"{row[1]!r} owns nothing else, ALTER TABLE ... OWNER TO {row[0]} for each table, or "
            f"let the collector connect as {row[1]!r}"
        )


def has_room(connection: Connection, expires: int) -> bool:
    """Whether the newest partition takes batches that expire on this day. SQLite always has
    room.

    Not if it would keep them for weeks longer, unless there are many partitions. SQLite has room.
    """
    if connection.dialect.name != "postgresql":
        return True
    rows = connection.execute(
        select(batch_partitions.c.expires, func.to_regclass(_name_of_id()))
        .order_by(batch_partitions.c.id.desc())
        .limit(_MOST)
    ).all()
    if not rows or rows[0][1] is None or rows[0].expires < expires:
        return False
    return rows[0].expires <= expires + _FAR_DAYS or len(rows) == _MOST


def make_room(connection: Connection, expires: int) -> None:
    """Open a partition for batches that expire by this day, unless there is room.

    For who holds the gate alone.  Nothing but `pg_dump` and the like may wait for it, or it for
    them: to attach a table is no reason to wait for who reads or writes.
    """
    if has_room(connection, expires):
        return
    number = int(connection.execute(text("SELECT nextval('batch_partition_ids')")).scalar_one())
    name = f"batches_{number}"
    for statement in (
        f"CREATE TABLE {name} (LIKE batches, PRIMARY KEY (batch_hash))",
        f"ALTER TABLE batches ATTACH PARTITION {name} FOR VALUES IN ({number})",
    ):
        connection.execute(text(statement))
    values = {"id": number, "expires": expires + PARTITION_DAYS - 1}
    connection.execute(insert(batch_partitions).values(values))


def drop_expired(transaction: Transaction, today: int) -> bool:
    """Drop the partitions whose batches have all expired; return whether none of them is left.

    Never the newest. A drop waits for who counts, and who counts for it: for a moment only, so
    that a long reader, such as a backup, stops nobody, and the drop is due again.
    """
    with transaction() as connection:
        newest = select(func.max(batch_partitions.c.id)).scalar_subquery()
        expired = (batch_partitions.c.expires < today, batch_partitions.c.id < newest)
        found = select(batch_partitions.c.id).where(*expired).order_by(batch_partitions.c.id)
        numbers = connection.execute(found).scalars().all()
    left = [number for number in numbers if not _drop(transaction, number, today)]
    return not left


def prolong(connection: Connection, days: int) -> None:
    """Keep every partition for more days."""
    connection.execute(update(batch_partitions).values(expires=batch_partitions.c.expires + days))


def _name_of_id() -> object:
    return func.concat("batches_", batch_partitions.c.id)


def _drop(transaction: Transaction, number: int, today: int) -> bool:
    """Whether it is gone; it is not if a lock would have to be waited for."""
    same = (batch_partitions.c.id == number, batch_partitions.c.expires < today)
    with transaction() as connection:
        try:
            with connection.begin_nested():
                connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}"))
                if connection.execute(delete(batch_partitions).where(*same)).rowcount:
                    connection.execute(text(f"DROP TABLE IF EXISTS batches_{number}"))
        except OperationalError as error:
            if not isinstance(error.orig, LockNotAvailable):
                raise
            return False
    return True
