"""The service's database: its `Program`, locks, clock and the helpers of all operations."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    Select,
    Table,
    UpdateBase,
    insert,
    select,
    text,
)
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from decoder.kinds.result import versions
from decoder_service.shell.models import Base, Identified
from decoder_service.shell.settings import ServiceSettings
from rappor_server import database
from rappor_server.database import Program, parse_url
from rappor_server.errors import ConflictError, NotFoundError, SettingsError

Row = TypeVar("Row", bound=Identified)

# Numbers of PostgreSQL's advisory locks ("decode" in ASCII).
MIGRATION_LOCK = 0x6465_636F_6465
CLAIM_LOCK = MIGRATION_LOCK + 1
_SQLITE_NOW = "SELECT (julianday('now') - 2440587.5) * 86400.0"
_POSTGRESQL_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

SERVICE = Program(
    name="decoder service",
    table="result_files",
    metadata=Base.metadata,
    migrations=Path(__file__).with_name("migrations"),
    migration_lock=MIGRATION_LOCK,
    shares_database=False,
)


def check_is_there(url: str) -> None:
    """Raise SettingsError if an SQLite file does not exist, since opening would create it empty."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():
        raise SettingsError(
            f"database {parsed.database!r}: there is no such file; check the path, or create it "
            "with rappor decoder serve"
        )


class ServiceDatabase(database.Database):
    """The transactions of the service on its database, with rows as objects."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, SERVICE)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a transaction that reads one consistent view of the tables."""
        with self.read() as connection, _session(connection) as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a writing transaction, and commit it at the end of the block.

        Raises the errors of `change`, and ConflictError if another transaction deleted a changed
        row."""
        with self.change() as connection, _session(connection) as db:
            try:
                yield db
                db.flush()
            except StaleDataError as error:
                raise ConflictError("another process was first: a row was deleted") from error


def _session(connection: Connection) -> Session:
    return Session(connection, execution_options={"populate_existing": True})


def now(db: Session) -> float:
    """Return the time of the database's clock in seconds since 1970, for all workers' leases."""
    is_postgresql = db.connection().dialect.name == "postgresql"
    return float(db.execute(text(_POSTGRESQL_NOW if is_postgresql else _SQLITE_NOW)).scalar_one())


def save(db: Session, row: Base) -> None:
    """Insert a row now. Raises IntegrityError, which `writing` turns into a ConflictError."""
    db.add(row)
    db.flush()


def visible_row(db: Session, model: type[Row], visible: ColumnElement[bool], row_id: str) -> Row:
    """Return the row with an id if it is visible, or raise NotFoundError."""
    row = db.scalar(select(model).where(visible, model.id == row_id))
    if row is None:
        name = model.__tablename__
        raise NotFoundError(
            f"there is no {name[:-1]} {row_id[:40]!a} that you may see; GET /v1/{name} lists yours"
        )
    return row


def matching(model: type[Base], **values: str | None) -> list[ColumnElement[bool]]:
    """Return an SQL condition for each nonempty value: that its column equals the value."""
    return [getattr(model, name) == value for name, value in values.items() if value]


def changed(db: Session, statement: UpdateBase) -> int:
    """Return the number of rows that an UPDATE or DELETE changed, 0 if its guard did not hold."""
    return cast("CursorResult[Any]", db.execute(statement)).rowcount


def total(db: Session, statement: Select[Any]) -> int:
    """Return the integer (a sum or a number of rows) that a statement selects; 0 for NULL."""
    return int(db.execute(statement).scalar() or 0)


def insert_once(db: Session, table: Table, key: Mapping[str, str], **others: Any) -> None:
    """Insert a row unless a row with its key exists."""
    query = select(1).where(*(table.c[name] == value for name, value in key.items()))
    if db.execute(query).first() is None:
        db.execute(insert(table).values(**key, **others))


DAY_SECONDS = 86_400.0
Clock: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time of this machine, UTC."""
    return datetime.now(UTC)


def text_of(seconds: float) -> str:
    """Format seconds since 1970 as ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(row: object, names: str) -> dict[str, Any]:
    """Return the named properties of a row for JSON; every float is a time, formatted as text.

    `names` are the properties, separated by spaces."""
    values = {name: getattr(row, name) for name in names.split()}
    return {n: text_of(value) if isinstance(value, float) else value for n, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The base class of operations on a database, with a clock and the settings."""

    database: ServiceDatabase
    clock: Clock
    random_bytes: Callable[[int], bytes]
    settings: ServiceSettings

    def now(self) -> float:
        """Return the present time in seconds since 1970."""
        return self.clock().timestamp()

    def new_id(self) -> str:
        """Return the id of a new row."""
        return self.random_bytes(8).hex()


def decoder_version() -> str:
    """Return the versions of all libraries that affect results; results' keys include the text."""
    libraries = versions() | {"pyarrow": version("pyarrow")}
    return ", ".join(f"{name} {number}" for name, number in libraries.items())
