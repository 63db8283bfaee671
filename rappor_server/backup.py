"""Copying a database while it is in use, and putting a copy in place of none.

SQLite is copied by its own online backup, page by page in one view; PostgreSQL by `pg_dump` and
`pg_restore`, which must be installed.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from rappor_core.whole_files import replacing
from rappor_server.database import describe, is_pooled, make_private, parse_url
from rappor_server.errors import SettingsError, StorageError
from rappor_server.program import Program

_BEGINS = {"sqlite": b"SQLite format 3\0", "postgresql": b"PGDMP"}  # of a file that `back_up` wrote
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_EXAMPLES = {"sqlite": "sqlite:///NAME.sqlite", "postgresql": "postgresql+psycopg://USER@HOST/NAME"}
_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%'
AND n.nspname <> 'information_schema' AND NOT EXISTS (
  SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'
) ORDER BY c.relname LIMIT 1
"""  # not those of extensions, which a new database may have


def back_up(database: str, file: Path, program: Program) -> int:
    """Write a consistent copy of a database to a new file; return its size in bytes.

    Raises SettingsError where the file exists or the database is not there, StorageError where
    copying fails. A copy that is not whole is never left under the name.
    """
    url = parse_url(database, program)
    if file.exists():
        raise SettingsError(f"{file} exists; name a new file")
    with replacing(file) as part:
        if url.get_backend_name() == "sqlite":
            source = Path(str(url.database))
            if not source.is_file():
                raise SettingsError(f"database {url.database!r}: there is no such file")
            _copy_sqlite(source, part, program)
        else:
            _run("pg_dump", "--format=custom", f"--file={part}", url=url)
        part.chmod(0o600)
    return file.stat().st_size


def restore(file: Path, database: str, program: Program) -> None:
    """Make a database from a backup file. The database must not exist yet (SQLite) or be empty
    (PostgreSQL).

    Raises SettingsError, also for a copy of the other kind of database; StorageError.
    """
    url = parse_url(database, program)
    if file.is_dir():
        raise SettingsError(f"{file} is a folder: give the file of a backup in it")
    if not file.is_file():
        raise SettingsError(f"{file}: there is no such file")
    if url.get_backend_name() == "sqlite":
        target = Path(str(url.database))
        if target.exists():
            raise SettingsError(f"{target} exists; stop the {program.name} and move it away first")
        _check_kind(file, "sqlite", database)
        _copy_sqlite(file, target, program)
        return
    _check_kind(file, "postgresql", database)
    _check_empty(url, program)
    options = ("--exit-on-error", "--single-transaction", "--no-owner")
    _run("pg_restore", *options, f"--dbname={url.database}", str(file), url=url)


def _check_kind(file: Path, wanted: str, database: str) -> None:
    """Raises SettingsError for a copy of the other kind of database, StorageError for no copy."""
    with file.open("rb") as opened:
        begin = opened.read(16)
    kinds = [kind for kind, mark in _BEGINS.items() if begin.startswith(mark)]
    if not kinds:
        raise StorageError(f"{file} is not a copy of a database; name a file that backup wrote")
    if kinds != [wanted]:
        scheme, there = database.partition("://")[0], _EXAMPLES[kinds[0]]
        raise SettingsError(
            f"{file} is a copy of a {_NAMES[kinds[0]]} database and does not go into {scheme}; "
            f"restore it to one of its kind, --database {there}"
        )


def _check_empty(url: URL, program: Program) -> None:
    """Raises SettingsError for a PostgreSQL database that holds tables, StorageError for none."""
    _refuse_pooler("pg_restore", url)
    engine = create_engine(url, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            name = connection.execute(text(_TABLES)).scalar()
    except DBAPIError as error:
        reason = describe(error, program.migrate)
        raise StorageError(f"the database {url.database!r} cannot be opened: {reason}") from error
    if name is not None:
        raise SettingsError(
            f"database {url.database!r} is not empty, it has a table {str(name)!r}: make an empty "
            "one (createdb NAME) and restore to that"
        )


def _copy_sqlite(source: Path, target: Path, program: Program) -> None:
    make_private(target)
    found = ""
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            found = new.execute("PRAGMA integrity_check").fetchone()[0]
            known = "SELECT count(*) FROM sqlite_master WHERE name = ?"
            if new.execute(known, (program.table,)).fetchone() == (0,):
                found = "none of its tables is ours"
    except sqlite3.Error as error:
        raise StorageError(f"{source} could not be copied to {target}: {error}") from error
    finally:
        if found != "ok":
            target.unlink(missing_ok=True)
    if found != "ok":
        raise StorageError(f"{source} is not a whole database of {program.owner}: {found}")


def _run(program: str, *arguments: str, url: URL) -> None:
    """Run one of PostgreSQL's programs; the password goes by the environment, not the arguments."""
    _refuse_pooler(program, url)
    path = shutil.which(program)
    if path is None:
        raise SettingsError(f"{program} is not on the PATH; install PostgreSQL's client programs")
    given = {
        "PGHOST": url.host or url.query.get("host"),
        "PGPORT": str(url.port) if url.port else None,
        "PGUSER": url.username,
        "PGPASSWORD": None if url.password is None else str(url.password),
        "PGDATABASE": url.database,
    }
    environment = os.environ | {name: str(value) for name, value in given.items() if value}
    done = subprocess.run(  # noqa: S603 (a program of PostgreSQL, no shell)
        [path, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StorageError(f"{program} failed: {done.stderr.strip()[-300:]}")


def _refuse_pooler(program: str, url: URL) -> None:
    if is_pooled(url):
        raise SettingsError(
            f"{program} needs a session of its own: name PostgreSQL, not its pooler"
        )
