"""The database tables of releases, beside those of `models`."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from decoder_service.shell.models import metadata

# A state is changed once, by one UPDATE that asks for `proposed`.
releases = Table(
    "releases",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("number", Integer, nullable=False),  # of the approved ones of this name, from 1
    Column("state", String(16), nullable=False),  # proposed, approved, rejected, withdrawn
    Column("proposer", String(16), ForeignKey("people.id"), nullable=False, index=True),
    Column("owner", String(500), nullable=False),  # as the policy says, cut
    Column("audience", String(500), nullable=False),
    Column("issued", String(10), nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of its manifest
    Column("policy", Text, nullable=False),  # text of release.toml
    Column("sources", Text, nullable=False),  # JSON: results and strata
    Column("note", Text, nullable=False),  # of the proposer
    Column("base", String(16), ForeignKey("releases.id")),  # that the difference is against
    Column("changes", Integer, nullable=False),  # rows of the difference
    Column("difference", LargeBinary, nullable=False),  # zlib of JSON
    Column("stored", Integer, nullable=False),  # bytes of its files as they are kept
    Column("created", Double, nullable=False),
    Column("reviewer", String(16), ForeignKey("people.id")),
    Column("reason", Text, nullable=False),  # of the decision
    Column("decided", Double),
)
_APPROVED = text("state = 'approved'")
Index("releases_number", releases.c.name, releases.c.number, unique=True,
      sqlite_where=_APPROVED, postgresql_where=_APPROVED)  # fmt: skip
Index("releases_state", releases.c.state, releases.c.created)

release_files = Table(
    "release_files",
    metadata,
    Column("release_id", String(16), ForeignKey("releases.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size", Integer, nullable=False),  # bytes, before compression
    Column("content", LargeBinary, nullable=False),  # zlib
)

# A release is built on all approved ones of its metrics: `number` counts those of a metric, and
# of two that were built on the same ones only one can be approved.
release_metrics = Table(
    "release_metrics",
    metadata,
    Column("release_id", String(16), ForeignKey("releases.id"), primary_key=True),
    Column("metric", String(256), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("approved", Boolean, nullable=False),
)
_PUBLIC = text("approved")
Index("release_metrics_number", release_metrics.c.metric, release_metrics.c.number, unique=True,
      sqlite_where=_PUBLIC, postgresql_where=_PUBLIC)  # fmt: skip
