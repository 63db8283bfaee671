"""Files for publications: folders that are written atomically, CSV, and page templates."""

import csv
import json
import os
import shutil
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from pydantic import ConfigDict, TypeAdapter, ValidationError

from decoder.errors import MissingColumnError, TableFileError
from decoder.tables.reading import read_table
from disclosure.errors import PublicationError, ReleaseError, TableError
from rappor_core.errors import WireFormatError, file_problem, shown, toml_problem
from rappor_core.strict_json import parse_strict_json
from rappor_core.text import safe_cell, visible

T = TypeVar("T")
MAX_TEXT = 200  # characters of a value
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)  # for files that people write
LENIENT = ConfigDict(strict=True)  # for files from programs, of this version or a later version
_MAX_PROBLEMS = 3  # problems of a file named in one message


def check_new_folder(folder: Path, what: str) -> None:
    """Raise ReleaseError now if a folder cannot be created, before work or budget is spent.

    `what` names the content that is never overwritten, for the message, such as "a release is"."""
    if folder.exists() or folder.is_symlink():
        raise ReleaseError(f"{folder} exists; {what} never overwritten: name a new folder")
    if not folder.parent.is_dir():
        raise ReleaseError(f"{folder} cannot be written: {folder.parent} is not a folder")
    if not os.access(folder.parent, os.W_OK):
        raise ReleaseError(f"{folder} cannot be written: permission denied in {folder.parent}")


@contextmanager
def new_folder(folder: Path, what: str) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `folder` if the block succeeds.

    Raises ReleaseError as `check_new_folder` does, and on disk errors."""
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
    """Add the file's name to errors raised in the block."""
    try:
        yield
    except PublicationError as error:
        raise type(error)(f"{file}: {error}") from None


def read_text(file: Path, refusal: type[PublicationError]) -> str:
    """Read a UTF-8 file, with or without a byte order mark. Raises `refusal` on failure."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(file_problem(error)) from None


# Built when first needed: the adapter of a release takes 40 ms.
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_plain(value: object) -> dict[str, Any]:
    """Return the fields of a dataclass as plain values for JSON."""
    plain: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json")
    return plain


def to_json(value: object, *, indent: int, exclude_none: bool = False) -> str:
    """Return the fields of a dataclass as JSON with a final newline."""
    data = _adapter(type(value)).dump_json(value, indent=indent, exclude_none=exclude_none)
    return data.decode() + "\n"


def parse_toml(kind: type[T], text: str, refusal: type[PublicationError]) -> T:
    """Parse TOML as values of a type.

    Args:
        kind: The type.
        text: The TOML text.
        refusal: The error to raise, with the key and the value.
    """
    try:
        table = json.dumps(tomllib.loads(text), default=str)
    except RecursionError:
        raise refusal("it is nested too deeply") from None
    except ValueError as error:
        raise refusal(toml_problem(error)) from None
    return parse(kind, table, refusal)


def parse(kind: type[T], text: str | bytes, refusal: type[PublicationError]) -> T:
    """Parse JSON as values of a type, bytes strictly; arguments and errors as for `parse_toml`."""
    try:
        if isinstance(text, bytes):
            parse_strict_json(text)
        value: T = _adapter(kind).validate_json(text)
        return value
    except WireFormatError as error:
        raise refusal(str(error)) from None
    except ValidationError as error:
        raise refusal("; ".join(map(_problem, error.errors()[:_MAX_PROBLEMS]))) from None


def read_json(file: Path, kind: type[T]) -> T:
    """Read a JSON file as values of a type. Raises TableError, which names the file."""
    with naming(file):
        try:
            return parse(kind, file.read_bytes().removeprefix(BOM_UTF8), TableError)
        except OSError as error:
            raise TableError(file_problem(error)) from None


def _problem(item: Mapping[str, Any]) -> str:
    """Describe a validation error in one line that names the value."""
    cause, place = item.get("ctx", {}).get("error"), ".".join(map(str, item["loc"]))[:MAX_TEXT]
    if isinstance(cause, PublicationError):
        return str(cause)
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] in ("missing", "unexpected_keyword_argument"):
        return f"{visible(place)}: {message}"
    return f"{visible(place)} = {shown(item['input'])}: {message}" if place else message


def read_columns(file: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Read some columns of a CSV file with a header; return the values by column.

    Raises TableError, with line and column, if a column is missing, a row has a different length, a
    text has leading or trailing spaces, or there are no rows."""
    values: dict[str, list[str]] = {name: [] for name in columns}
    with naming(file), reading():
        for row in read_table(file, columns, every_line=True):
            for name, texts in values.items():
                texts.append(row.text(name))
        if not all(values.values()):
            raise TableError("no rows")
    return values


@contextmanager
def reading() -> Iterator[None]:
    """Convert errors of the strict reader to TableError."""
    try:
        yield
    except (TableFileError, MissingColumnError) as error:
        raise TableError(str(error)) from None
    except OSError as error:
        raise TableError(file_problem(error)) from None


def write_csv(
    file: Path, header: Iterable[str], rows: Iterable[Iterable[object]], *, guarded: bool = False
) -> None:
    """Write a CSV file with a header, in UTF-8 with LF line ends.

    Args:
        file: The file, which is overwritten if it exists.
        header: The names of the columns.
        rows: The rows, each with a cell for every column.
        guarded: Whether to put an apostrophe before strings that a spreadsheet would compute.

    Raises:
        OSError: The file cannot be written.
    """
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        for row in chain([header], rows):
            writer.writerow(
                safe_cell(cell) if guarded and isinstance(cell, str) else cell for cell in row
            )


def sorted_rows(
    table: Mapping[str, Sequence[str]], mask: Sequence[bool] | None = None
) -> dict[str, list[str]]:
    """Return the rows of a table, if `mask` is true, sorted.

    The original order could match another table, and so identify people."""
    rows = list(zip(*table.values(), strict=True))
    visible_rows = sorted(row for place, row in enumerate(rows) if mask is None or mask[place])
    return dict(zip(table, map(list, zip(*visible_rows, strict=True)), strict=True))
