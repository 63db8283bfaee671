"""Rates that processes share: by hash, when a bucket will be full again. In PostgreSQL.

The table is not logged: it is in no write-ahead log, replica or backup, and empty after a crash.
The clock is the database's.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

MOST_READ = 10_000  # buckets: those that take longest

_ADD = text(
    "INSERT INTO rate_limits AS r "
    "SELECT name, extract(epoch FROM now()) + seconds "
    "FROM unnest(cast(:names AS bytea[]), cast(:seconds AS float8[])) AS t(name, seconds) "
    "ORDER BY name "  # two that share at once lock rows in one order
    "ON CONFLICT (name) DO UPDATE SET "
    "full_at = excluded.full_at + greatest(r.full_at - extract(epoch FROM now()), 0)"
)
_FORGET = text(
    "DELETE FROM rate_limits WHERE name IN (SELECT name FROM rate_limits "
    "WHERE full_at < extract(epoch FROM now()) FOR UPDATE SKIP LOCKED)"
)
_READ = text(
    "SELECT name, full_at - extract(epoch FROM now()) FROM rate_limits "
    "WHERE full_at > extract(epoch FROM now()) ORDER BY full_at DESC LIMIT :most"
)


def share(connection: Connection, taken: Mapping[bytes, float]) -> dict[bytes, float]:
    """Add what one process took, and return what all have.

    Args:
        connection: in a transaction that adds.
        taken: by hash, in seconds that it takes to refill.

    Returns:
        By hash, the seconds until the bucket is full; of full ones nothing is kept.
    """
    if taken:
        connection.execute(_ADD, {"names": list(taken), "seconds": list(taken.values())})
    connection.execute(_FORGET)
    rows = connection.execute(_READ, {"most": MOST_READ})
    return {bytes(name): float(seconds) for name, seconds in rows}
