"""Bringing a database to this code's schema, or refusing one that is at another.

The migrations are Alembic's, in `collector/migrations`. An empty database is brought to the head
at once; one that is behind is left alone until an operator says so.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from collector.errors import SchemaError, SettingsError
from collector.store.engine import MIGRATION_LOCK, Database

MIGRATIONS = Path(__file__).parent.parent / "migrations"


def prepare(database: Database) -> None:
    """Make the tables in an empty database; check the schema of any other.

    Raises SchemaError for one that is older (naming the command), newer, or of something else,
    and StorageError for a PostgreSQL whose commits are not on the disk when they return.
    """
    with database.change() as connection:
        _lock(database, connection)
        current = _current(connection)
        if current is None and not inspect(connection).get_table_names():
            _upgrade(connection)
            return
        check(current)


def check_connections(database: Database, needed: int) -> None:
    """Raises SettingsError where PostgreSQL cannot give this many connections at once."""
    if not database.is_postgresql:
        return
    settings = ("max_connections", "superuser_reserved_connections")
    with database.read() as connection:
        values = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in settings]
    most, reserved = map(int, values)
    if needed > most - reserved:
        raise SettingsError(
            f"the workers of this host take up to {needed} connections, and PostgreSQL gives "
            f"{most - reserved} (max_connections = {most}, less {reserved} reserved); raise "
            "max_connections, or lower workers or database_connections"
        )


def migrate(database: Database) -> tuple[str | None, str]:
    """Bring a database to the head, in one transaction; return its revision before and after.

    Raises SchemaError for a newer one.
    """
    with database.change() as connection:
        _lock(database, connection)
        current = _current(connection)
        if current is not None and current not in _known():
            raise SchemaError(_newer(current))
        _upgrade(connection)
        return current, _head()


def check(current: str | None) -> None:
    """Raises SchemaError unless `current` is the head."""
    if current == _head():
        return
    if current is None:
        raise SchemaError(
            "the database has tables, and none of them is ours; name an empty database"
        )
    if current not in _known():
        raise SchemaError(_newer(current))
    raise SchemaError(
        f"the database is at schema {current}, this code needs {_head()}; make a backup, stop "
        "every collector on it, then run: rappor migrate --database URL"
    )


def _newer(current: str) -> str:
    return (
        f"the database is at schema {current}, which this code (schema {_head()}) does not know; "
        "run the version of rappor-telemetry that made it, or a newer one"
    )


def _lock(database: Database, connection: Connection) -> None:
    """Several workers start at once; one of them makes the tables."""
    if database.is_postgresql:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def _known() -> set[str]:
    script = ScriptDirectory.from_config(_config())
    return {revision.revision for revision in script.walk_revisions()}


def _head() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    return str(head)
