"""The tables of a database that version 0.3.0 made."""

import sqlalchemy as sa
from alembic import command, op
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from collector.store.database import COLLECTOR
from rappor_server import schema


def make_database(connection: sa.Connection) -> None:
    """Make the tables, and stamp them with their revision."""
    with Operations.context(MigrationContext.configure(connection)):
        _make_tables()
    command.stamp(schema._config(COLLECTOR, connection), "0008")


def _make_tables() -> None:
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    _make_metrics()
    _make_counters()
    _make_blocks()
    _make_batches()
    _make_access()
    _make_broker()
    op.bulk_insert(state, [{"id": 1, "version": 0}])


def _make_metrics() -> None:
    op.create_table(
        "metrics",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("params_id", sa.String(32), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
    )
    op.create_table(
        "frontiers",
        sa.Column("metric", sa.String(128), primary_key=True),
        sa.Column("closed_through", sa.Integer, nullable=False),
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("params_id", sa.String(32), nullable=False),
        sa.Column("metric", sa.String(128), nullable=False),
        sa.UniqueConstraint("name", "params_id"),
    )

    op.create_table(
        "associations",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("params_id", sa.String(32), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
    )


def _make_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), nullable=False),
        sa.Column("first_day", sa.Integer, nullable=False),
        sa.Column("last_day", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("sealed", sa.Boolean, nullable=False),
        sa.UniqueConstraint("series_id", "first_day"),
    )
    op.create_table(
        "block_counts",
        sa.Column("block_id", sa.Integer, sa.ForeignKey("blocks.id"), primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "linked_days",
        sa.Column("block_id", sa.Integer, sa.ForeignKey("blocks.id"), primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "raw_reports",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("mark", sa.LargeBinary(8), primary_key=True),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_batches() -> None:
    """Remembered batches: a table in SQLite, partitions in PostgreSQL (`store.batch_partitions`).
    Rates that processes shared were of PostgreSQL, too."""
    if op.get_bind().dialect.name != "postgresql":
        op.create_table(
            "batches",
            sa.Column("batch_hash", sa.LargeBinary(16), primary_key=True),
            sa.Column("digest", sa.LargeBinary(16), nullable=False),
            sa.Column("expires", sa.Integer, nullable=False),
            sa.Column("num_reports", sa.Integer, nullable=False),
            sa.Column("results", sa.LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        )
        return
    op.create_table(
        "batch_partitions",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("expires", sa.Integer, nullable=False),
    )
    op.execute("CREATE SEQUENCE batch_partition_ids")
    op.execute(
        "CREATE TABLE batches (batch_hash bytea NOT NULL, digest bytea NOT NULL, "
        "partition_id integer NOT NULL, num_reports integer NOT NULL, results bytea NOT NULL) "
        "PARTITION BY LIST (partition_id)"
    )
    op.create_table(
        "rate_limits",
        sa.Column("name", sa.LargeBinary(16), primary_key=True),
        sa.Column("full_at", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        prefixes=["UNLOGGED"],
    )


def _make_access() -> None:
    op.create_table(
        "keys",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("created", sa.Integer, nullable=False),
        sa.Column("revoked", sa.Integer),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("act", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )


def _make_broker() -> None:
    """How far the messages of a broker are counted: see `store.broker`."""
    op.create_table(
        "broker_positions",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "broker_skipped",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("first_offset", sa.BigInteger, primary_key=True),
        sa.Column("last_offset", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "broker_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("counted_before", sa.Integer, nullable=False),
        sa.Column("ignored_before", sa.Integer, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
    )
