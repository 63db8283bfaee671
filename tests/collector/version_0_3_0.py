"""The tables of a database that version 0.3.0 made."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command

from collector.store.database import COLLECTOR
from rappor_server import schema

HERE = Path(__file__).parent
WORDS = {
    "sqlite": {"number": "INTEGER", "bytes": "BLOB", "without_rowid": "WITHOUT ROWID"},
    "postgresql": {"number": "SERIAL", "bytes": "BYTEA", "without_rowid": ""},
}


def make_database(connection: sa.Connection) -> None:
    """Make the tables that both databases have and those of this one, and stamp their revision."""
    kind = connection.dialect.name
    common = (HERE / "version_0_3_0.sql").read_text().format(**WORDS[kind])
    own = (HERE / f"version_0_3_0.{kind}.sql").read_text()
    for statement in filter(str.strip, (common + own).split(";")):
        connection.execute(sa.text(statement))
    command.stamp(schema._config(COLLECTOR, connection), "0008")
