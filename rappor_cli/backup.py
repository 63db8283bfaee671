"""`rappor backup` and `rappor restore`: copy a collector's database, and put a copy in place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from collector.backup import back_up
from collector.backup import restore as put_back

DatabaseOption = Annotated[
    str, typer.Option(envvar="RAPPOR_DATABASE", help="e.g. sqlite:///rappor.sqlite")
]


def backup(
    database: DatabaseOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="A new file.")],
) -> None:
    """Write a consistent copy of the database while it is in use."""
    size = back_up(database, output)
    print(f"{output}: {size} bytes")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `rappor backup` wrote.")],
    database: DatabaseOption,
) -> None:
    """Make the database from FILE. It must not be there yet, and no collector may be running."""
    put_back(file, database)
    print(f"restored from {file}; read docs/operations.md on the days that were open")
