"""`rappor migrate`, `backup` and `restore`, for the collector's and decoder service's databases."""

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from collector.domain.operations import COMMAND_LINE
from collector.settings import load_settings as collector_settings
from collector.store.database import COLLECTOR, CollectorDatabase
from decoder_service.shell.database import SERVICE, ServiceDatabase
from decoder_service.shell.settings import load_settings as service_settings
from rappor_cli.store import opened
from rappor_server.backup import back_up
from rappor_server.backup import restore as put_back
from rappor_server.database import Program, make_engine, parse_url
from rappor_server.errors import SettingsError
from rappor_server.schema import migrate as run_migrations

_URLS = ["RAPPOR_DATABASE", "RAPPOR_DECODER_DATABASE"]
_STEMS = {COLLECTOR.name: "rappor-collector", SERVICE.name: "rappor-decoder"}  # backup file names
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", envvar=_URLS, help="By default, the one in the settings."),
]


def backup(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A new file, or a folder for a dated file."),
    ],
    database: DatabaseOption = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="In a folder: the number of latest backups to keep."),
    ] = None,
) -> None:
    """Write a consistent copy of an SQLite database while it is in use."""
    url = database or _database_of_settings()
    program = owner_of(url)
    copy = partial(back_up, url, program=program)
    print(write_backup(output, _STEMS[program.name], keep, copy, datetime.now(UTC)))


def restore(
    context: typer.Context,
    database: Annotated[str, typer.Option("--database", envvar=_URLS, help="A new database.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A file that `rappor backup` wrote; omit for a PostgreSQL database that its own "
            "tools have restored."
        ),
    ] = None,
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep-open-days/--discard-open-days",
            help="Keep or discard days that were not served at the time of a collector's backup; "
            "asked on a terminal. Keep them only if nothing was served since.",
        ),
    ] = None,
) -> None:
    """Restore an SQLite database from FILE, or settle the open days after a PostgreSQL restore.

    The database file must not exist yet, and no program may be using the database.

    Days that a collector had not served at the time of the backup may have been served since, with
    reports that the backup lacks. Serving them again could reveal those reports as a difference.
    """
    source = context.get_parameter_source("database")
    is_named = source is not None and source.name == "COMMANDLINE"
    if file is None and not (is_named and parse_url(database).get_backend_name() == "postgresql"):
        raise typer.BadParameter(
            "name the file of a backup; open days of a restored PostgreSQL database are settled "
            "only where --database names it",
            param_hint="FILE",
        )
    program = owner_of(database) if file is None else _owner_of_file(file)
    if file is None and not _has_table(database, program.table):
        raise SettingsError(
            f"database {parse_url(database).database!r} has no tables of a collector; restore its "
            "copy first (pg_restore)"
        )
    if keep is None and program is COLLECTOR and (file is None or file.is_file()):
        keep = _ask_for_open_days()
    if file is not None:
        put_back(file, database, program)
    restored = f"restored from {file or 'its own copy'}"
    if owner_of(database) is SERVICE:
        print(restored)
        return
    with opened(database) as service:
        settled = service.settle_restore(COMMAND_LINE, keep_unserved=bool(keep))
    done = "kept" if keep else "discarded"
    print(f"{restored}; {settled} reports of days not served yet were {done}")


def _ask_for_open_days() -> bool:
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "give --discard-open-days, which is always safe, or --keep-open-days if no day was "
            "served since the backup"
        )
    return typer.confirm("Keep the open days? Only if no day was served since the backup", err=True)


def migrate(database: DatabaseOption = None) -> None:
    """Migrate a database to this version's schema, in one transaction. Make a backup first.

    An empty database becomes a collector's; the decoder service creates its tables when it starts.
    """
    url = database or _database_of_settings()
    program = owner_of(url)
    kind = ServiceDatabase if program is SERVICE else CollectorDatabase
    store = kind(make_engine(url))
    try:
        before, after = run_migrations(store)
    finally:
        store.close()
    was = "already" if before == after else f"now; it was {before or 'empty'}"
    print(f"the {program.name}'s database is at schema {after} {was}")


def owner_of(url: str) -> Program:
    """Return the program to which a database's tables belong; the collector if it is empty."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).is_file():
        return COLLECTOR
    return SERVICE if _has_table(url, SERVICE.table) else COLLECTOR


def _has_table(url: str, table: str) -> bool:
    with closing(CollectorDatabase(make_engine(url))) as store, store.read() as connection:
        return connection.dialect.has_table(connection, table)


def _owner_of_file(file: Path) -> Program:
    tables = "SELECT count(*) FROM sqlite_master WHERE name = ?"
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as opened:
            (number,) = opened.execute(tables, (SERVICE.table,)).fetchone()
    except sqlite3.Error:
        return COLLECTOR  # `restore` rejects the file and names it
    return SERVICE if number else COLLECTOR


def _database_of_settings() -> str:
    if "RAPPOR_DECODER_SETTINGS" in os.environ:
        return service_settings().database
    return collector_settings().database


def write_backup(
    output: Path, stem: str, keep: int | None, copy: Callable[[Path], int], now: datetime
) -> str:
    """Write a backup, delete old backups, and return a message about both.

    Args:
        output: A new file, or a folder that exists.
        stem: The prefix of the names of this program's backups.
        keep: The number of backups to keep in a folder, or None for all.
        copy: A function that writes a file and returns its size in bytes.
        now: The time, UTC.

    Raises:
        BadParameter: `keep` is given for a file.
    """
    if not output.is_dir():
        if keep is not None:
            raise typer.BadParameter(f"{output} is not a folder", param_hint="--keep")
        return f"{output}: {copy(output)} bytes"
    file = output / f"{stem}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.backup"
    size = copy(file)
    backups = sorted(output.glob(f"{stem}-????????T??????Z.backup"))
    old = backups[:-keep] if keep else []
    for path in old:
        path.unlink()
    return f"{file}: {size} bytes" + (f"; {len(old)} older deleted" if old else "")
