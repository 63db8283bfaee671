"""Several files of one result: all of them, or what was there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from decoder.errors import OutputError
from decoder.files import write_files


def refused(path: Path) -> None:
    path.write_text("half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """Before, the manifest of a new result stood beside the page of an older one."""
    (tmp_path / "manifest.json").write_text("old")
    with pytest.raises(OutputError, match=r"report\.html' cannot be written: no space left"):
        write_files(
            tmp_path,
            {
                "manifest.json": lambda path: path.write_text("new"),
                "report.html": refused,
                "more.csv": lambda path: path.write_text("new"),
            },
        )
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_text() == "old"


def test_all_files_are_there_at_the_end(tmp_path: Path) -> None:
    names = ("b", "a", "c")
    found = write_files(
        tmp_path / "new", {name: lambda path: path.write_text("x") for name in names}
    )
    assert found == tuple(tmp_path / "new" / name for name in names)
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(names)
