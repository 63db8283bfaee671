"""Functions for commands that use a collector's database directly, without HTTP and a key."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from decoder.errors import DecodeError
from decoder.progress import Note, quiet
from decoder.sources.windows import Each, SplitName, fetch_parts
from rappor_cli.options import DATABASE_VARIABLE
from rappor_cli.text import print_note
from rappor_core.aggregate import Aggregate

if TYPE_CHECKING:
    from collector.domain.operations import Collector


@contextmanager
def opened(database: str, *, may_be_new: bool = False) -> Iterator[Collector]:
    """Open the collector of a database for one command.

    A database is created only if `may_be_new`; otherwise a mistyped path would appear to be empty.
    """
    # Imported here, because it takes almost a second, and commands that read files do not need it.
    from collector.domain.operations import Collector
    from collector.store.database import CollectorDatabase
    from rappor_server.database import make_engine, parse_url
    from rappor_server.errors import SettingsError
    from rappor_server.schema import prepare

    url = parse_url(database)
    engine = make_engine(database)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        if not may_be_new:
            raise SettingsError(
                f"database {url.database!r}: there is no such file; check the path, or create it "
                "with rappor migrate"
            )
        print_note(f"creating the database {url.database}")
    store = CollectorDatabase(engine)
    try:
        prepare(store)
        yield Collector(store)
    finally:
        store.close()


@dataclass(frozen=True)
class StoredWindow:
    """The closed days of a metric, read from a collector's database.

    Otherwise like `decoder.sources.aggregates.CollectorWindow`.
    """

    database: str
    metric: str
    first: date | None = None
    last: date | None = None
    split: SplitName | None = None
    params_id: str | None = None

    def read(self, note: Note = quiet) -> list[Aggregate]:
        """Read the counts. Raises DecodeError or the collector's RapporError on failure."""
        from collector.domain.operations import COMMAND_LINE  # as in `opened`

        with opened(self.database) as service:

            def fetch(name: str, first: date | None, last: date | None) -> Aggregate:
                return service.read_aggregate(
                    COMMAND_LINE, name, params_id=self.params_id, first=first, last=last
                )

            days = self.first, self.last
            if self.split is None:
                return [fetch(self.metric, *days)]
            listed = service.list_metrics()
            return list(fetch_parts(self.metric, listed, fetch, days, self.split, note))

    def windows(self, each: Each, note: Note = quiet) -> list[Aggregate]:
        """Raise DecodeError, because a series requires a collector over HTTP, or files."""
        del each, note
        raise DecodeError("a series needs a collector over HTTP, or files; give one of these")


def need_one(
    collector: str | None, database: str | None, files: Sequence[Path] | None = None
) -> None:
    """Raise a usage error unless exactly one source was named.

    Files and a collector take precedence over a database in the environment. A database in the same
    command line is an error, because it would be ignored.
    """
    typed = None if database == os.environ.get(DATABASE_VARIABLE) else database
    options = {"--aggregate": files, "--collector": collector, "--database": typed}
    named = [option for option, value in options.items() if value]
    if len(named) > 1:
        raise typer.BadParameter(f"give one of {' and '.join(named)}")
    if not named and database is None:
        file = "" if files is None else ", or --aggregate FILE"
        raise typer.BadParameter(f"name --collector URL or --database URL{file}")
