"""The remembered batches, so that a batch which is sent again is not counted again.

The id of a batch is the only part of its body that cannot be guessed. So the database never stores
the id: a hash of the id finds the batch, and the digest of the body is keyed by the id. Someone who
has only the database cannot check whether a guessed body was really sent.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, delete, true, update

from collector.store.models import batches

_HASH_BYTES = 16
_NAME_OF_ID, _NAME_OF_BODY = b"rappor batch id\x00", b"rappor batch body\x00"
_SLICES = 256  # slices by the first byte of the hash, for short transactions

Transaction = Callable[[], AbstractContextManager[Connection]]


class BatchRow(NamedTuple):
    """A row for a counted batch."""

    batch_hash: bytes  # 16 bytes
    digest: bytes  # 16 bytes
    expires: int  # the last day on which any of the batch's days may be open
    num_reports: int
    results: bytes  # a code for each report, or empty if all were accepted


def hash_of_id(batch_id: bytes) -> bytes:
    """Return the key of a remembered batch: 16 bytes of SHA-256 over a fixed name and its id."""
    return sha256(_NAME_OF_ID + batch_id).digest()[:_HASH_BYTES]


def keyed_digest(batch_id: bytes, digest: bytes) -> bytes:
    """Return a digest of a batch's body, keyed by the batch id, 16 bytes.

    The result is equal only for the same id and body. `batch_id` and `digest` have 16 bytes each,
    so that no two pairs produce the same input.
    """
    return sha256(_NAME_OF_BODY + batch_id + digest).digest()[:_HASH_BYTES]


def forget_batches(transaction: Transaction, today: int) -> None:
    """Delete the remembered batches whose days are all closed, in short transactions.

    Args:
        transaction: A function that opens a transaction that writes.
        today: The day before which batches must have expired.
    """
    hashes = batches.c.batch_hash
    for first in range(_SLICES):
        is_last = first + 1 == _SLICES
        upper = true() if is_last else hashes < bytes([first + 1])
        with transaction() as connection:
            some = (hashes >= bytes([first]), upper)
            connection.execute(delete(batches).where(batches.c.expires < today, *some))


def prolong_batches(connection: Connection, days: int) -> None:
    """Remember all batches for more days, because days stay open longer."""
    connection.execute(update(batches).values(expires=batches.c.expires + days))
