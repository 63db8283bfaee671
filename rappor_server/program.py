"""The differences between the programs that own a database (collector, decoder service), in one
record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData


@dataclass(frozen=True, slots=True)
class Program:
    """A program that owns a database, and the words by which messages name it.

    name: as in "stop the collector" and "the collector's database".  owner: whose database it is,
    as in "a collector".  instances: what must stop before a migration, as in "every collector".
    table: one that only its databases have.  example: a URL of SQLite.
    migrate: the command that brings a database to this version.  metadata: its tables.
    migrations: the folder of Alembic.  migration_lock: an advisory lock of PostgreSQL.
    not_ours: of tables that are somebody else's.  unknown_schema: of a revision not known here.
    shares_database: whether `migrate` may add its tables alongside somebody else's.
    """

    name: str
    owner: str
    instances: str
    table: str
    example: str
    migrate: str
    metadata: MetaData
    migrations: Path
    migration_lock: int
    not_ours: str
    unknown_schema: str
    shares_database: bool
