"""Files of publications: folders written whole, CSV columns, and templates of pages."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from disclosure.errors import ReleaseError, TableError
from rappor_core.errors import file_problem, shown
from rappor_core.failures import failure_reason

LONGEST = 200  # characters of a value


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
    from decoder.results.tables import short  # loads scipy, which readers of columns do not need

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = "{:,}".format
    environment.filters["short"] = lambda text, most=LONGEST: short(text, most)
    return environment.get_template(name)


def read_columns(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Read some columns of a CSV file with a header.

    Returns: for each column, its values in the order of the rows.
    Raises: TableError for a column that the file has not, and a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            indices = [_index_of(header, name, path) for name in columns]
            values = [
                [row[i] for i in indices] if len(row) == len(header) else _refuse(path, number, row)
                for number, row in enumerate(rows, 1)
                if row or len(header) == 1  # of one column: an empty value, and not to be dropped
            ]
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise TableError(f"{path}: not CSV in UTF-8: {failure_reason(error)}") from error
    if not values:
        raise TableError(f"{path}: no rows")
    return [list(column) for column in zip(*values, strict=True)]


def _index_of(header: list[str], name: str, path: Path) -> int:
    if header.count(name) != 1:
        raise TableError(f"{path}: {header.count(name)} columns are named {shown(name)}, not one")
    return header.index(name)


def _refuse(path: Path, number: int, row: list[str]) -> list[str]:
    raise TableError(f"{path}: row {number} has {len(row)} fields, unlike the header")
