"""Copies of databases, as operators make them: rappor's of SQLite, PostgreSQL's by its tools."""

import subprocess
from pathlib import Path

from sqlalchemy.engine import make_url

from collector.store.database import back_up, restore


def copy_database(database: str, file: Path) -> None:
    """Needs the fixture `with_pg_programs` for PostgreSQL."""
    if database.startswith("sqlite"):
        back_up(database, file)
    else:
        run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={plain(database)}")


def put_copy_back(file: Path, database: str) -> None:
    if database.startswith("sqlite"):
        restore(file, database)
    else:
        run("pg_restore", "--no-owner", f"--dbname={plain(database)}", str(file))


def plain(database: str) -> str:
    return make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
