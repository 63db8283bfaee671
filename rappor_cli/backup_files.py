"""The files of backups: a new one by name, or one with its date in a folder of the latest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

OutputOption = Annotated[
    Path,
    typer.Option("--output", "-o", help="A new file; or a folder, which gets one with its date."),
]
KeepOption = Annotated[
    int | None,
    typer.Option(min=1, help="Of a folder: delete all but so many of the latest backups."),
]


def write_backup(
    output: Path, stem: str, keep: int | None, copy: Callable[[Path], int], now: datetime
) -> str:
    """Write a backup and delete those that are too old; return what was done, in words.

    Args:
        output: a new file, or a folder that is there.
        stem: how the names of this program's backups begin.
        keep: how many stay in a folder, None for all.
        copy: writes a file and returns its size in bytes.
        now: the time, UTC.

    Raises:
        BadParameter: `keep` for a file.
    """
    if not output.is_dir():
        if keep is not None:
            raise typer.BadParameter(f"{output} is no folder", param_hint="--keep")
        return f"{output}: {copy(output)} bytes"
    file = output / f"{stem}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.backup"
    size = copy(file)
    known = sorted(output.glob(f"{stem}-????????T??????Z.backup"))
    old = known[:-keep] if keep else []
    for one in old:
        one.unlink()
    return f"{file}: {size} bytes" + (f"; {len(old)} older deleted" if old else "")
