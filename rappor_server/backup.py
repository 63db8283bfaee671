"""Functions that back up an SQLite database while it is in use, and restore it.

SQLite's own online backup copies one consistent view, page by page. PostgreSQL has its own tools.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from rappor_core.whole_files import replacing
from rappor_server.database import Program, make_private, parse_url
from rappor_server.errors import SettingsError, StorageError


def back_up(database: str, file: Path, program: Program) -> int:
    """Write a consistent copy of an SQLite database to a new file; return its size in bytes.

    An incomplete copy is never left under the name.

    Raises:
        SettingsError: The file exists, or the database is missing or is PostgreSQL's.
        StorageError: Copying failed.
    """
    source = _sqlite_file(database, "pg_dump --format=custom, or with its snapshots")
    if file.exists():
        raise SettingsError(f"{file} exists; name a new file")
    if not source.is_file():
        raise SettingsError(f"database {str(source)!r}: there is no such file; check the path")
    with replacing(file) as part:
        _copy(source, part, program)
        part.chmod(0o600)
    return file.stat().st_size


def restore(file: Path, database: str, program: Program) -> None:
    """Create an SQLite database, which must not exist yet, from a backup file.

    Raises:
        SettingsError: The file is missing, or the database exists or is PostgreSQL's.
        StorageError: The file is not a complete copy of such a database.
    """
    target = _sqlite_file(
        database, "pg_restore, then run rappor restore for it without a file: it settles open days"
    )
    if not file.is_file():
        raise SettingsError(f"{file} is not a file: name one that rappor backup wrote")
    if target.exists():
        raise SettingsError(f"{target} exists; stop the {program.name} and move it away first")
    _copy(file, target, program)


def _sqlite_file(database: str, tools: str) -> Path:
    url = parse_url(database)
    if url.get_backend_name() != "sqlite":
        raise SettingsError(
            f"database {url.database!r} is PostgreSQL's, which has its own tools: use {tools}"
        )
    return Path(str(url.database))


def _copy(source: Path, target: Path, program: Program) -> None:
    make_private(target)
    result = ""
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            result = new.execute("PRAGMA integrity_check").fetchone()[0]
            query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
            if new.execute(query, (program.table,)).fetchone() == (0,):
                result = "it has none of this program's tables"
    except sqlite3.Error as error:
        where = f"{source} could not be copied into {target.parent}"
        raise StorageError(f"{where}: {error}; name another file") from error
    finally:
        if result != "ok":
            target.unlink(missing_ok=True)
    if result != "ok":
        raise StorageError(f"{source} is not an intact database of the {program.name}: {result}")
