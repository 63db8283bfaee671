"""The collector's tables. Days are whole days since 1970-01-01 (UTC).

No table has a column for an address, a header, a time of arrival or an order of arrival. In SQLite
the tables are stored by their key (`WITHOUT ROWID`), so that not even the order of rows reveals the
order of reports.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    false,
    insert,
)

metadata = MetaData()

# One row; `version` grows with every change of metrics, keys or closed days, so that a worker
# can check with one small query whether its cache is still valid.
state = Table(
    "state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("last_day", Integer),  # the last day that a collector has seen; null if unknown
)


@event.listens_for(state, "after_create")
def _set_first_version(_: object, connection: Connection, **__: object) -> None:
    connection.execute(insert(state).values(id=1, version=0))


metrics = Table(
    "metrics",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("params_id", String(32), primary_key=True),
    Column("position", Integer, nullable=False),  # a name's highest is its current version
    Column("definition", Text, nullable=False),
    Column("retired", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=false()),
)

# A day at or before `closed_through` accepts no reports for the metric, regardless of the clock.
frontiers = Table(
    "frontiers",
    metadata,
    Column("metric", String(128), primary_key=True),
    Column("closed_through", Integer, nullable=False),
)

# A series can be summed: it has one name (each sub-metric has its own) and one params_id.
series = Table(
    "series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(128), nullable=False),
    Column("params_id", String(32), nullable=False),
    Column("metric", String(128), nullable=False),
    UniqueConstraint("name", "params_id"),
)

# Days that still accept reports. `counts` contains 32-bit little-endian lanes, one per bit.
counters = Table(
    "counters",
    metadata,
    Column("series_id", Integer, ForeignKey("series.id"), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("cohort", Integer, primary_key=True),
    Column("num_reports", BigInteger, nullable=False),
    Column("counts", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# Closed days, merged permanently. An unsealed block has too few reports and is not served.
blocks = Table(
    "blocks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("series_id", Integer, ForeignKey("series.id"), nullable=False),
    Column("first_day", Integer, nullable=False),
    Column("last_day", Integer, nullable=False),
    Column("num_reports", BigInteger, nullable=False),
    Column("sealed", Boolean, nullable=False),
    UniqueConstraint("series_id", "first_day"),
)

block_counts = Table(
    "block_counts",
    metadata,
    Column("block_id", Integer, ForeignKey("blocks.id"), primary_key=True),
    Column("cohort", Integer, primary_key=True),
    Column("num_reports", BigInteger, nullable=False),
    Column("counts", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# Batches already counted: a hash of the id, and a digest of the body keyed by the id, which is not
# stored. `results` is empty if every report was accepted.
batches = Table(
    "batches",
    metadata,
    Column("batch_hash", LargeBinary(16), primary_key=True),
    Column("digest", LargeBinary(16), nullable=False),
    Column("expires", Integer, nullable=False),
    Column("num_reports", Integer, nullable=False),
    Column("results", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# The positions in a broker's messages: next_offset is the first uncounted message.
broker_positions = Table(
    "broker_positions",
    metadata,
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Messages that were not counted, and the reasons. Their contents are only in the broker.
broker_skipped = Table(
    "broker_skipped",
    metadata,
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("first_offset", BigInteger, primary_key=True),
    Column("last_offset", BigInteger, nullable=False),
    Column("reason", String(32), nullable=False),
    sqlite_with_rowid=False,
)

# One row if a broker feeds this database. Every message from a day before `counted_before` is
# counted. Messages before `ignored_before` never will be. `refused` counts acknowledged, uncounted
# reports.
broker_state = Table(
    "broker_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("counted_before", Integer, nullable=False),
    Column("ignored_before", Integer, nullable=False),
    Column("refused", BigInteger, nullable=False),
)

# Only for metrics with keep_raw_days > 0. The random `mark` distinguishes equal reports.
raw_reports = Table(
    "raw_reports",
    metadata,
    Column("series_id", Integer, ForeignKey("series.id"), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("cohort", Integer, primary_key=True),
    Column("mark", LargeBinary(8), primary_key=True),
    Column("bits", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# `secret_hash` is SHA-256. `created` and `revoked` are days; `revoked` is null while valid.
keys = Table(
    "keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("scope", String(16), nullable=False),
    Column("label", String(200), nullable=False),
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("created", Integer, nullable=False),
    Column("revoked", Integer),
)

# Actions by admins and analysts, never by devices, so a time may be stored.
audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", String(32), nullable=False),
    Column("actor", String(64), nullable=False),
    Column("act", String(64), nullable=False),
    Column("detail", Text, nullable=False),
)
