"""The migration to version 0.4.0.

It drops associations and shards, merges the batch tables, and adds metric pauses and last days.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0008"
branch_labels = None
depends_on = None

_IN_AN_ASSOCIATION = """
    SELECT series.id FROM series JOIN associations
        ON series.name = associations.name AND series.params_id = associations.params_id
"""
_OF_ITS_BLOCKS = f"block_id IN (SELECT id FROM blocks WHERE series_id IN ({_IN_AN_ASSOCIATION}))"  # noqa: S608
_MAX_REPORTS = (1 << 32) - 1  # a larger count could carry into the next lane
_ROWS_AT_ONCE = 1_000
_NAMES = ("series_id", "day", "cohort", "num_reports", "counts")


def upgrade() -> None:
    """Change the tables of version 0.3.0 to those of the models."""
    _delete_associations()
    _forget_shared_cohorts()
    op.add_column(
        "metrics", sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column("state", sa.Column("last_day", sa.Integer))
    op.execute("UPDATE state SET version = version + 1")
    if op.get_bind().dialect.name == "postgresql":
        _join_batches()
    _sum_shards()


def _delete_associations() -> None:
    op.drop_table("linked_days")
    op.execute(f"DELETE FROM block_counts WHERE {_OF_ITS_BLOCKS}")  # noqa: S608
    for table in ("blocks", "counters", "raw_reports"):
        op.execute(f"DELETE FROM {table} WHERE series_id IN ({_IN_AN_ASSOCIATION})")  # noqa: S608
    op.execute(f"DELETE FROM series WHERE id IN ({_IN_AN_ASSOCIATION})")  # noqa: S608
    op.drop_table("associations")


def _forget_shared_cohorts() -> None:
    """Delete `cohort_with` from definitions; no `params_id` depends on it."""
    metrics = sa.table("metrics", *map(sa.column, ("name", "params_id", "definition")))
    connection = op.get_bind()
    for row in connection.execute(sa.select(metrics)).all():
        definition = json.loads(row.definition)
        if definition.pop("cohort_with", None) is not None:
            same = (metrics.c.name == row.name, metrics.c.params_id == row.params_id)
            text = json.dumps(definition, sort_keys=True)
            connection.execute(sa.update(metrics).where(*same).values(definition=text))


def _join_batches() -> None:
    """Move the batches of all partitions into one table, with their expiry; drop shared rates."""
    op.rename_table("batches", "partitioned_batches")
    op.create_table(
        "batches",
        sa.Column("batch_hash", sa.LargeBinary(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("expires", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("results", sa.LargeBinary, nullable=False),
    )
    op.execute(
        "INSERT INTO batches SELECT batch_hash, digest, expires, num_reports, results "
        "FROM partitioned_batches JOIN batch_partitions ON id = partition_id "
        "ON CONFLICT DO NOTHING"
    )
    for what in (
        "TABLE partitioned_batches",  # including its partitions
        "TABLE batch_partitions",
        "SEQUENCE batch_partition_ids",
        "TABLE rate_limits",
    ):
        op.execute(f"DROP {what}")


def _sum_shards() -> None:
    """Sum the counters of each cohort over the shards."""
    op.rename_table("counters", "sharded_counters")
    counters = op.create_table(
        "counters",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    sharded = sa.table("sharded_counters", *map(sa.column, _NAMES))
    statement = sa.select(sharded).order_by(*[sharded.c[name] for name in _NAMES[:3]])
    rows = op.get_bind().execute(statement, execution_options={"yield_per": _ROWS_AT_ONCE})
    totals = _totals(rows)
    while some := list(islice(totals, _ROWS_AT_ONCE)):
        op.bulk_insert(counters, some)
    op.drop_table("sharded_counters")


def _totals(rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield one counter row per cohort, summed over its shards; `rows` are sorted by cohort."""
    for key, shards in groupby(rows, lambda row: row[:3]):
        num_reports = lanes = size = 0
        for shard in shards:
            num_reports += shard.num_reports
            lanes += int.from_bytes(shard.counts, "little")
            size = len(shard.counts)
        if num_reports > _MAX_REPORTS:
            raise ValueError(f"a cohort of series {key[0]} has {num_reports} reports of one day")
        values = (*key, num_reports, lanes.to_bytes(size, "little"))
        yield dict(zip(_NAMES, values, strict=True))
