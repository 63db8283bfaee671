"""The table of shared rate limits, in PostgreSQL: by hashed sender, when its bucket will be full
again.

The table is not logged: it is in no write-ahead log, replica or backup, and empty after a crash.
The clock is the database's. Who adds comes first and waits for no one after it, so that no two
wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

MOST_READ = 10_000  # buckets: those that take longest; no more are kept
_SET_BACK_SECONDS = 30.0  # by which a row may be ahead of a transaction that began before it

_NOW = "extract(epoch FROM now())"
_OF_NOW = f"r.changed_at < {_NOW} + {_SET_BACK_SECONDS}"  # else the clock was set back
_ADD = text(
    f"INSERT INTO rate_limits AS r SELECT name, {_NOW} + seconds, {_NOW} "  # noqa: S608 (our own)
    "FROM unnest(cast(:names AS bytea[]), cast(:seconds AS float8[])) AS t(name, seconds) "
    "ORDER BY name "  # two that share at once lock rows in one order
    "ON CONFLICT (name) DO UPDATE SET changed_at = excluded.changed_at, full_at = "
    f"excluded.full_at + CASE WHEN {_OF_NOW} THEN greatest(r.full_at - {_NOW}, 0) ELSE 0 END"
)
_FORGET = text(
    "DELETE FROM rate_limits WHERE name IN (SELECT name FROM rate_limits AS r "  # noqa: S608
    f"WHERE full_at < {_NOW} OR NOT {_OF_NOW} FOR UPDATE SKIP LOCKED)"
)
_FORGET_LIGHTEST = text(
    "DELETE FROM rate_limits WHERE name IN (SELECT name FROM rate_limits "
    "ORDER BY full_at DESC OFFSET :most FOR UPDATE SKIP LOCKED)"
)
_READ = text(
    f"SELECT name, full_at - {_NOW} FROM rate_limits WHERE full_at > {_NOW} "  # noqa: S608
    "ORDER BY full_at DESC LIMIT :most"
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
    connection.execute(_FORGET_LIGHTEST, {"most": MOST_READ})
    rows = connection.execute(_READ, {"most": MOST_READ})
    return {bytes(name): float(seconds) for name, seconds in rows}
