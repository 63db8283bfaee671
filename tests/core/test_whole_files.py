"""A file that is there stays as it is until the new one is whole."""

import os
import re
import threading
from pathlib import Path

import pytest

from rappor_core.whole_files import replacing, write_whole
from tests.file_limits import files_of_at_most


def test_a_full_disk_keeps_the_good_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("good")
    with files_of_at_most(100), pytest.raises(OSError, match=r"out\.json") as refused:
        write_whole(path, "x" * 101)
    assert refused.value.filename == str(path)
    assert path.read_text() == "good"
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


def _copied(source: Path, path: Path) -> None:
    with replacing(path) as part:
        part.write_text("half")
        part.write_text(source.read_text())


def test_a_failure_inside_leaves_file_and_name(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("good")
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        _copied(tmp_path / "elsewhere", path)
    assert path.read_text() == "good"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder" / "file")
    for text in ("one", "two"):
        write_whole(link, text)
        assert link.is_symlink()
        assert (tmp_path / "folder" / "file").read_text() == text


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(path.read_text()))
    reader.start()
    write_whole(path, "text")
    reader.join(10)
    assert found == ["text"]
    assert path.is_fifo()


def test_folders_and_missing_ones_are_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "file"):
        with pytest.raises(OSError, match=re.escape(path.name)):
            write_whole(path, "text")
