"""Bringing a database to this code's schema, or refusing one that is at another.

The migrations are Alembic's, in `decoder/service/migrations`. An empty database is brought to the
head at once; one that is behind is left alone until an operator says so.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from decoder.service.errors import SchemaError
from decoder.service.store.engine import MIGRATION_LOCK, Database, lock

MIGRATIONS = Path(__file__).parent.parent / "migrations"


def prepare(database: Database) -> None:
    """Make the tables in an empty database; check the schema of any other.

    Raises SchemaError for one that is older (naming the command), newer, or of something else.
    """
    with database.change() as connection:
        lock(connection, MIGRATION_LOCK)
        current = _current(connection)
        if current is None and not inspect(connection).get_table_names():
            _upgrade(connection)
            return
        check(current)


def migrate(database: Database) -> tuple[str | None, str]:
    """Bring a database to the head, in one transaction; return its revision before and after.

    Raises SchemaError for a newer one, or one of something else.
    """
    with database.change() as connection:
        lock(connection, MIGRATION_LOCK)
        current = _current(connection)
        if current is None and inspect(connection).get_table_names():
            check(current)
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
            "the database has tables, and none of them is the decoder service's; name an empty one"
        )
    if current not in _known():
        raise SchemaError(_newer(current))
    raise SchemaError(
        f"the database is at schema {current}, this code needs {_head()}; make a backup, stop "
        "every service and worker on it, then run: rappor decoder migrate --database URL"
    )


def _newer(current: str) -> str:
    return (
        f"the database is at schema {current}, which this code (schema {_head()}) does not know: "
        "it is another program's, such as the collector's, or a newer version's"
    )


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
    return str(ScriptDirectory.from_config(_config()).get_current_head())
