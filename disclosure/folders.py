"""Folders that are written whole, under their name at the end, and never written again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from disclosure.errors import ReleaseError
from rappor_core.errors import file_problem


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
