"""The service's database: its `Program`, its locks and its clock."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from decoder_service.shell.models import metadata
from rappor_server import database
from rappor_server.errors import SettingsError
from rappor_server.program import Program

# Advisory locks of PostgreSQL, fixed numbers of our own ("decode").
MIGRATION_LOCK = 0x6465_636F_6465
CLAIM_LOCK = MIGRATION_LOCK + 1
_SQLITE_NOW = "SELECT (julianday('now') - 2440587.5) * 86400.0"
_POSTGRESQL_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

SERVICE = Program(
    name="decoder service",
    owner="the service",
    instances="every service and worker",
    table="result_files",
    example="sqlite:///rappor-decoder.sqlite",
    migrate="rappor migrate",
    metadata=metadata,
    migrations=Path(__file__).with_name("migrations"),
    migration_lock=MIGRATION_LOCK,
    not_ours="none of them is the decoder service's; name an empty one",
    unknown_schema=": it is another program's, such as the collector's, or a newer version's; "
    "name a database of the service, or run the version of rappor-telemetry that made it",
    shares_database=False,
)

parse_url = partial(database.parse_url, program=SERVICE)
make_engine = partial(database.make_engine, program=SERVICE)


def check_is_there(url: str) -> None:
    """Raise SettingsError for an SQLite file that does not exist, which would be made empty."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():
        raise SettingsError(
            f"database {parsed.database!r}: there is no such file; check the path, or make it with "
            "rappor decoder serve"
        )


class ServiceDatabase(database.Database):
    """Transactions of the service on its database."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, SERVICE)


def now(connection: Connection) -> float:
    """The time of the database's clock in seconds since 1970: one clock for the leases of all
    workers."""
    statement = _POSTGRESQL_NOW if connection.dialect.name == "postgresql" else _SQLITE_NOW
    return float(connection.execute(text(statement)).scalar_one())
