"""Functions to read and write files: writes are atomic, and errors name the file."""

import csv
import importlib
import json
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from decoder.errors import CountsError, DecodeError, OutputError
from decoder.progress import Progress, silent
from rappor_core import whole_files
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.failures import failure_reason

Row = TypeVar("Row")
_UNREADABLE = (
    RapporError,
    ValueError,
    OverflowError,
    NotImplementedError,
    EOFError,
    OSError,
    csv.Error,
    zlib.error,
    RecursionError,
)


@contextmanager
def naming(path: Path, error: type[DecodeError], hint: str) -> Iterator[None]:
    """Convert errors from reading `path` to `error`, with the file's name.

    `hint` is added to all errors except the decoder's own, which already state the remedy."""
    try:
        yield
    except DecodeError as cause:
        raise error(f"{path}: {cause}") from cause
    except IsADirectoryError as cause:
        raise error(f"{path}: it is a folder; give the file") from cause
    except _UNREADABLE as cause:
        raise error(f"{path}: {failure_reason(cause)}; {hint}") from cause


def read_aggregate_file(path: Path) -> Aggregate:
    """Read an aggregate file. Raises CountsError, which names the file."""
    with naming(path, CountsError, "give counts that rappor aggregate -o FILE wrote"):
        return Aggregate.from_json(path.read_bytes())


def make_folder(folder: Path) -> None:
    """Create a folder if it does not exist. Raises OutputError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error


def probe_folder(folder: Path) -> None:
    """Create a folder and test that it is writable, before long work. Raises OutputError if not."""
    make_folder(folder)
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _refused(folder, error) from error


def claim_folder(folder: Path, names: Iterable[str], mark: str, key: str = "metric") -> None:
    """Raise OutputError if writing to a folder would replace a file from another program.

    Args:
        folder: The folder.
        names: The files that will be written. They may exist only if the folder has a valid `mark`.
        mark: The file that identifies this command's results: a JSON object.
        key: A key that the object must contain.
    """
    there = [name for name in names if (folder / name).exists()]
    if there and not _has_key(folder / mark, key):
        raise OutputError(
            f"{str(folder)!r} holds {there[0]!r}, and no {mark} of this command, so it is not "
            "replaced; give another folder"
        )


def claim_file(path: Path) -> None:
    """Raise OutputError if a file exists and is not an aggregate file."""
    if path.is_file() and path.stat().st_size and not _has_key(path, "metric"):
        raise OutputError(
            f"{str(path)!r} exists and is not an aggregate, so it is not replaced; choose another"
        )


def _has_key(path: Path, key: str) -> bool:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and key in content


def probe_file(path: Path) -> None:
    """Check that a file, unless a pipe or terminal, is writable. Raises OutputError if not."""
    there = path.exists()
    if there and not (path.is_file() or path.is_dir()):
        return
    try:
        path.open("ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise _refused(path, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file through a temporary file (`rappor_core.whole_files`). Raises OutputError."""
    try:
        with whole_files.replacing(path) as part:
            yield part
    except OSError as error:
        raise _refused(path, error) from error


def write_files(
    directory: str | Path,
    files: Mapping[str, Callable[[Path], object]],
    progress: Progress = silent,
) -> tuple[Path, ...]:
    """Write all files or none to a directory; return their paths. Raises OutputError on failure.

    The directory is created if needed. A full disk leaves existing files unchanged.

    Args:
        directory: The directory.
        files: For each name, a function that writes the file to a given path.
        progress: A callback for progress.
    """
    folder = Path(directory)
    make_folder(folder)
    with ExitStack() as whole:
        backwards = reversed(list(files))  # so that the files are renamed in order
        parts = {name: whole.enter_context(replacing(folder / name)) for name in backwards}
        for done, (name, write) in enumerate(files.items(), start=1):
            try:
                write(parts[name])
            except OSError as error:
                raise _refused(folder / name, error) from error
            progress("writing files", done, len(files))
    return tuple(folder / name for name in files)


def finite(value: Any) -> Any:
    """Replace NaN and infinities in plain values with null, because JSON does not support them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def row_of(kind: type[Row], values: Mapping[str, Any], may_lack: Collection[str] = ()) -> Row:
    """Convert a row in a JSON file that `finite` produced to the dataclass `kind`.

    Null becomes NaN, except in the columns in `may_lack`. Files of earlier versions may lack
    columns that have a default."""
    names = [field.name for field in fields(kind)  # type: ignore[arg-type]
             if field.default is MISSING or field.name in values]  # fmt: skip
    return kind(**{name: math.nan if values[name] is None and name not in may_lack else values[name]
                   for name in names})  # fmt: skip


def _refused(path: Path, error: OSError) -> OutputError:
    is_file = isinstance(error, FileExistsError)
    reason = "it is a file, not a folder" if is_file else failure_reason(error)
    return OutputError(
        f"{str(path)!r} cannot be written: {reason}; give a writable folder, with space left"
    )


def to_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Return rows as a pandas.DataFrame. Raises OutputError if pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise OutputError("pandas is not installed: pip install pandas") from error
    return pandas.DataFrame([dict(row) for row in rows], columns=list(columns))
