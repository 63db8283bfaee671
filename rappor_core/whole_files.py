"""Atomic file writes: a file appears under its name only when complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block ends without an error.

    A symbolic link is followed. If `path` is not a regular file (such as a pipe), the path itself
    is yielded.

    Raises OSError if writing fails. The error names `path`, not the temporary file.
    """
    real = Path(os.path.realpath(path))
    part = real.with_name(f".{real.name}.{token_hex(4)}.part")
    try:
        if real.exists() and not real.is_file():
            yield real
            return
        try:
            yield part
            part.replace(real)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if error.filename in (None, str(part)):
            error.filename = str(path)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a text as UTF-8, completely or not at all.

    Args:
        path: The file, which is replaced if it exists.
        text: The new contents.

    Raises:
        OSError: The file cannot be written; the error names `path`.
    """
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
