"""Files are written whole or not at all, and whatever goes wrong names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from decoder.errors import OutputError


def make_folder(folder: Path) -> None:
    """Make a folder where it is missing. Raises OutputError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file beside `path` to fill, which takes its name when the block ends well.

    Whoever reads `path` meanwhile, or after a failure, sees what was there before. Raises
    OutputError where the file cannot be written.
    """
    part = path.with_name(f".{path.name}.{token_hex(4)}.part")
    try:
        try:
            yield part
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(
        f"{str(path)!r} cannot be written: {reason}; give a folder that can, with space left"
    )
