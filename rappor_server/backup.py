"""Copying a database while it is in use, and putting a copy in place of none.

SQLite is copied by its own online backup, page by page in one view; PostgreSQL by `pg_dump` and
`pg_restore`, which must be installed.
"""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import URL

from rappor_core.whole_files import replacing
from rappor_server.database import (
    Database,
    Program,
    is_pooled,
    make_engine,
    make_private,
    parse_url,
)
from rappor_server.errors import SettingsError, StorageError

_KINDS = {  # of a file that `back_up` wrote, by its first bytes: where it can be restored
    b"SQLite format 3\0": ("SQLite", "sqlite:///NAME.sqlite"),
    b"PGDMP": ("PostgreSQL", "postgresql+psycopg://USER@HOST/NAME"),
}
_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%'
AND n.nspname <> 'information_schema' AND NOT EXISTS (
  SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'
) ORDER BY c.relname LIMIT 1
"""  # not those of extensions, which a new database may have


def back_up(database: str, file: Path, program: Program) -> int:
    """Write a consistent copy of a database to a new file; return its size in bytes. Raises
    SettingsError where the file exists or the database is not there, StorageError where copying
    fails. A copy that is not whole is never left under the name."""
    url = parse_url(database)
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
    (PostgreSQL). Raises SettingsError, also for a copy of the other kind of database; StorageError.
    """
    url = parse_url(database)
    if file.is_dir():
        raise SettingsError(f"{file} is a folder: give the file of a backup in it")
    if not file.is_file():
        raise SettingsError(f"{file}: there is no such file")
    with file.open("rb") as opened:
        begin = opened.read(16)
    kind, there = next((one for mark, one in _KINDS.items() if begin.startswith(mark)), ("", ""))
    is_sqlite, target = url.get_backend_name() == "sqlite", Path(str(url.database))
    if is_sqlite and target.exists():
        raise SettingsError(f"{target} exists; stop the {program.name} and move it away first")
    if not kind:
        raise StorageError(f"{file} is not a copy of a database; name a file that backup wrote")
    if is_sqlite != (kind == "SQLite"):
        raise SettingsError(
            f"{file} is a copy of a {kind} database and does not go into "
            f"{database.partition('://')[0]}; restore it to one of its kind, --database {there}"
        )
    if is_sqlite:
        _copy_sqlite(file, target, program)
        return
    _refuse_pooler("pg_restore", url)
    with closing(Database(make_engine(database), program)) as new, new.read() as connection:
        name = connection.execute(text(_TABLES)).scalar()
    if name is not None:
        raise SettingsError(
            f"database {url.database!r} is not empty, it has a table {str(name)!r}: make an empty "
            "one (createdb NAME) and restore to that"
        )
    options = ("--exit-on-error", "--single-transaction", "--no-owner")
    _run("pg_restore", *options, f"--dbname={url.database}", str(file), url=url)


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
        raise StorageError(f"{source} is not a whole database of the {program.name}: {found}")


def _run(program: str, *arguments: str, url: URL) -> None:
    """Run one of PostgreSQL's programs; the password goes by the environment, not the arguments."""
    _refuse_pooler(program, url)
    path = shutil.which(program)
    if path is None:
        raise SettingsError(f"{program} is not on the PATH; install PostgreSQL's client programs")
    given = {
        "PGHOST": url.host or url.query.get("host"),
        "PGPORT": url.port,
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
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
