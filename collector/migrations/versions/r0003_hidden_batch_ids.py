"""Batches are found by a hash of their id, and their digests keyed by it: see `store.batches`.

What was stored before is hashed, not dropped, so that a batch sent again is still known. The old
rows are written over (SQLite) or deleted with their file (PostgreSQL). Backups made before this
hold the ids: delete them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from collector.store.batches import hash_of_id, keyed_digest

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 5_000


def upgrade() -> None:
    """Write every batch anew, hidden; index their expiry in PostgreSQL, where that costs little."""
    op.rename_table("batches", "batches_in_clear")
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    if on_postgresql:
        op.execute("ALTER INDEX batches_pkey RENAME TO batches_in_clear_pkey")
    hidden = _make("batch_hash")
    _copy(op.get_bind(), hidden)
    op.drop_table("batches_in_clear")
    if on_postgresql:  # equal keys stand in the order of the rows: each goes beside the last one
        op.create_index("batches_expires", "batches", ["expires"])


def downgrade() -> None:
    """Make the table as it was, empty: what is hidden cannot be shown again."""
    op.drop_table("batches")
    _make("batch_id")


def _make(key: str) -> sa.Table:
    return op.create_table(
        "batches",
        sa.Column(key, sa.LargeBinary(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("expires", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("results", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _copy(connection: sa.Connection, hidden: sa.Table) -> None:
    """Pages of the old table, in the order of its key, into the new one."""
    names = ("batch_id", "digest", "expires", "num_reports", "results")
    old = sa.table("batches_in_clear", *map(sa.column, names))
    page = sa.select(*(old.c[name] for name in names)).order_by(old.c.batch_id)
    last = b""
    while rows := connection.execute(page.where(old.c.batch_id > last).limit(_ROWS_AT_ONCE)).all():
        connection.execute(sa.insert(hidden), [_hidden(row) for row in rows])
        last = bytes(rows[-1].batch_id)


def _hidden(row: Any) -> dict[str, Any]:
    batch_id = bytes(row.batch_id)
    return {
        "batch_hash": hash_of_id(batch_id),
        "digest": keyed_digest(batch_id, bytes(row.digest)),
        "expires": row.expires,
        "num_reports": row.num_reports,
        "results": row.results,
    }
