"""`rappor migrate`, `backup` and `restore`: what an operator does with a collector's database."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from collector.domain.operations import COMMAND_LINE
from collector.settings import load_settings
from collector.store.database import CollectorDatabase, back_up, make_engine
from collector.store.database import restore as put_back
from rappor_cli import options as shared
from rappor_cli.backup_files import KeepOption, OutputOption, write_backup
from rappor_cli.store import opened
from rappor_server.schema import migrate as bring
from rappor_server.schema import migrated_text


def backup(
    output: OutputOption,
    database: Annotated[
        str | None,
        typer.Option(envvar="RAPPOR_DATABASE", help="That of the collector's settings by default."),
    ] = None,
    keep: KeepOption = None,
) -> None:
    """Write a consistent copy of the database while it is in use."""
    where = database or load_settings().database
    copy = partial(back_up, where)
    print(write_backup(output, "rappor-collector", keep, copy, datetime.now(UTC)))


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `rappor backup` wrote.")],
    database: shared.NeededDatabase,
    keep_open_days: Annotated[
        bool, typer.Option(help="Only if nothing was served since the backup.")
    ] = False,
) -> None:
    """Make the database from FILE. It must not be there yet, and no collector may be running.

    Days that were not served at the time of the backup are discarded: they may have been served
    since, with reports that the backup lacks, and two answers must not differ by those.
    """
    put_back(file, database)
    if keep_open_days:
        print(f"restored from {file}, open days as well")
        return
    with opened(database) as service:
        discarded = service.discard_unserved(COMMAND_LINE)
    print(f"restored from {file}; {discarded} reports of days not served yet were discarded")


def migrate(database: shared.NeededDatabase) -> None:
    """Bring the database to this version's schema, in one transaction. Make a backup first."""
    store = CollectorDatabase(make_engine(database))
    try:
        before, after = bring(store)
    finally:
        store.close()
    print(migrated_text(store.program, before, after))
