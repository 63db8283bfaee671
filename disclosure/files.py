"""Files of publications: folders written whole, CSV, and templates of pages."""

from __future__ import annotations

import csv
import os
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from disclosure.errors import DomainError, PublicationError, ReleaseError, TableError
from rappor_core.errors import file_problem, shown, toml_problem
from rappor_core.failures import failure_reason
from rappor_core.text import safe_cell

MAX_TEXT = 200  # characters of a value


def check_new_folder(folder: Path, what: str) -> None:
    """Raises ReleaseError where a folder cannot be made; asked before work or budget is spent.

    what: is never written over, for the message, such as "a release is".
    """
    if folder.exists() or folder.is_symlink():
        raise ReleaseError(f"{folder} exists; {what} never written over: name a new folder")
    if not folder.parent.is_dir():
        raise ReleaseError(f"{folder} cannot be written: {folder.parent} is no folder")
    if not os.access(folder.parent, os.W_OK):
        raise ReleaseError(f"{folder} cannot be written: permission denied in {folder.parent}")


@contextmanager
def new_folder(folder: Path, what: str) -> Iterator[Path]:
    """Yield a temporary folder beside `folder`; it is renamed to `folder` at the end, if nothing
    failed.

    Raises ReleaseError as `check_new_folder`, and where the disk refuses.
    """
    check_new_folder(folder, what)
    part = folder.with_name(f".{folder.name}.{token_hex(4)}.part")
    try:
        part.mkdir()
        try:
            yield part
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    except OSError as error:
        raise ReleaseError(f"{folder} cannot be written: {file_problem(error)}") from None


def page_template(package: str, name: str) -> Template:
    """Load a template from the folder `templates` of a package."""
    from decoder.tables.format import short

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = "{:,}".format
    environment.filters["short"] = lambda text, most=MAX_TEXT: short(text, most)
    return environment.get_template(name)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Name the file in the message of what is refused in the block."""
    try:
        yield
    except PublicationError as error:
        raise type(error)(f"{file}: {error}") from None


def read_toml(file: Path) -> dict[str, Any]:
    """Read the declaration of a domain. Raises DomainError where it is not TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise DomainError(f"cannot be read: {failure_reason(error)}") from error
    except ValueError as error:
        raise DomainError(toml_problem(error)) from error


def read_csv_rows(file: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file in UTF-8. Raises TableError where it cannot be read."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            yield from csv.reader(lines)
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise TableError(f"not CSV in UTF-8: {failure_reason(error)}") from error


def read_columns(file: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Read some columns of a CSV file with a header.

    Returns:
        By column, its values in the order of the rows.

    Raises:
        TableError: a column that the file does not have, a row of another length, or no rows.
    """
    with naming(file):
        rows = read_csv_rows(file)
        header = next(rows, [])
        for name in columns:
            if header.count(name) != 1:
                raise TableError(f"{header.count(name)} columns are named {shown(name)}, not one")
        places = {name: header.index(name) for name in columns}
        values: dict[str, list[str]] = {name: [] for name in columns}
        for number, row in enumerate(rows, 1):
            if not row and len(header) > 1:
                continue  # an empty line; of one column it is an empty value, and is not dropped
            if len(row) != len(header):
                raise TableError(f"row {number} has {len(row)} fields, unlike the header")
            for name, place in places.items():
                values[name].append(row[place])
        if not all(values.values()):
            raise TableError("no rows")
    return values


def write_csv(
    file: Path, header: Iterable[str], rows: Iterable[Iterable[object]], *, guarded: bool = False
) -> None:
    """Write a CSV file with a header, in UTF-8 with lines that end in LF.

    Args:
        file: written over if it exists.
        header: names of the columns.
        rows: of as many cells.
        guarded: whether an apostrophe goes before texts that a spreadsheet would compute.

    Raises:
        OSError: it cannot be written.
    """
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        for row in chain([header], rows):
            writer.writerow(map(_guarded, row) if guarded else row)


def _guarded(cell: object) -> object:
    return safe_cell(cell) if isinstance(cell, str) else cell
