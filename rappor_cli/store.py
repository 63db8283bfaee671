"""Commands that work on a collector's database directly, without HTTP and without a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collector.domain.operations import Collector
    from rappor_core.aggregate import Aggregate


@contextmanager
def opened(database: str, *, may_be_new: bool = False) -> Iterator[Collector]:
    """The collector of a database, for one command.

    Only one that may be new is made: a mistyped path would answer that it holds nothing.
    """
    # Loaded here: it takes most of a second, which commands that read files do not need.
    from collector.domain.operations import Collector
    from collector.errors import SettingsError
    from collector.store.database import CollectorDatabase, make_engine, parse_url
    from rappor_server.schema import prepare

    url = parse_url(database)
    engine = make_engine(database)
    if url.get_backend_name() == "sqlite" and not (may_be_new or Path(str(url.database)).exists()):
        raise SettingsError(
            f"database {url.database!r}: there is no such file; check the path, or make it with "
            "rappor migrate"
        )
    store = CollectorDatabase(engine)
    try:
        prepare(store)
        yield Collector(store)
    finally:
        store.close()


def stored_counts(
    database: str, metric: str, first: date | None, last: date | None, params_id: str | None = None
) -> Aggregate:
    """The aggregate of the closed days of a metric, all of them without days.

    Raises RapporError of the collector.
    """
    from collector.domain.operations import COMMAND_LINE

    with opened(database) as service:
        return service.read_aggregate(
            COMMAND_LINE, metric, params_id=params_id, first=first, last=last
        )


def need_one(collector: str | None, database: str | None) -> None:
    """Raise a usage error unless a collector or a database was named. --collector wins."""
    if collector is None and database is None:
        raise typer.BadParameter("name --collector URL or --database URL")
