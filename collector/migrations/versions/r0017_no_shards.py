"""The counters of a cohort are one row, whichever worker counted its reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0012"
branch_labels = None
depends_on = None

_MAX_REPORTS = (1 << 32) - 1  # above it a count could carry into the next lane
_ROWS_AT_ONCE = 1_000
_NAMES = ("series_id", "day", "cohort", "num_reports", "counts")


def upgrade() -> None:
    """Sum the rows of each cohort over the shards."""
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
    """Sum rows that are in the order of their cohorts."""
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
