"""Creation, checks and migrations of a program's database schema.

The migrations are Alembic's, in the program's folder. An empty database gets the models' tables and
the stamp of the newest revision. An older database is left alone until an operator migrates it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from rappor_server.database import Database, Program, check_commits
from rappor_server.errors import SchemaError


def prepare(database: Database) -> None:
    """Create the tables in an empty database, or check an existing schema.

    Raises SchemaError if the database is older (with the command to run), newer, or belongs to
    another program, and StorageError if PostgreSQL does not sync commits.
    """
    with _alone(database) as (connection, current):
        if current is None and not inspect(connection).get_table_names():
            _create(connection, database.program)
        else:
            check(current, database.program)


def migrate(database: Database) -> tuple[str | None, str]:
    """Migrate a database to the newest revision, in one transaction.

    Return the revisions before and after. Raises SchemaError if the database is newer, or belongs
    to another program that does not share it.
    """
    program = database.program
    database.max_seconds = float("inf")  # the rows of all days may be rewritten
    with _alone(database) as (connection, current):
        is_empty = program.shares_database or not inspect(connection).get_table_names()
        if current is None and is_empty:
            _create(connection, program)
        else:
            if current not in _revisions(program):
                check(current, program)
            command.upgrade(_config(program, connection), "head")
        return current, _revisions(program)[0]


def check(current: str | None, program: Program) -> None:
    """Raise SchemaError unless `current` is the newest revision."""
    known = _revisions(program)
    if current not in known:
        raise SchemaError(
            f"the database has tables at schema {current or 'none'}, and this code knows the "
            f"{program.name}'s up to {known[0]}: they belong to another program or a newer "
            f"version; name an empty database or a {program.name}'s, or run the newer version"
        )
    if current != known[0]:
        raise SchemaError(
            f"the {program.name}'s database is at schema {current}, this code needs {known[0]}; "
            f"make a backup, stop every process of the {program.name} on it, then run: rappor "
            "migrate --database URL"
        )


@contextmanager
def _alone(database: Database) -> Iterator[tuple[Connection, str | None]]:
    """Run a transaction that locks the schema; yield its connection and the schema's revision."""
    with database.change() as connection:
        check_commits(connection, f"pg_advisory_xact_lock({database.program.migration_lock})")
        yield connection, MigrationContext.configure(connection).get_current_revision()


def _create(connection: Connection, program: Program) -> None:
    program.metadata.create_all(connection, checkfirst=False)
    command.stamp(_config(program, connection), "head")


def _config(program: Program, connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(program.migrations))
    config.attributes["connection"] = connection
    return config


@cache
def _revisions(program: Program) -> list[str]:
    scripts = ScriptDirectory.from_config(_config(program))
    return [script.revision for script in scripts.walk_revisions()]
