"""Values that stay, and files that are written whole or not at all."""

import os
import pickle
import re
import threading
from copy import deepcopy
from pathlib import Path

import pytest

from rappor_core.frozen import Frozen
from rappor_core.whole_files import replacing, write_whole
from tests.file_limits import files_of_at_most


class Pair(Frozen):
    first: int
    second: int = 2

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise ValueError("equal")


class Triple(Pair):
    third: str = "x"


@pytest.mark.parametrize(
    ("values", "named", "wrong"),
    [
        ((), {}, "first"),
        ((1, 3, 4), {}, "4"),
        ((1,), {"first": 3}, "first"),
        ((1,), {"fourth": 3}, "fourth"),
    ],
)
def test_wrong_fields_are_named(values: tuple[int, ...], named: dict[str, int], wrong: str) -> None:
    with pytest.raises(TypeError, match=rf"first, second; wrong or missing: .*{wrong}"):
        Pair(*values, **named)


def test_equal_by_type_and_value() -> None:
    assert Pair(1) == Pair(1, 2)
    assert hash(Pair(1)) == hash(Pair(1, 2))
    assert Pair(1) not in (Pair(3), Triple(1), (1, 2))
    assert deepcopy(Triple(1)) == pickle.loads(pickle.dumps(Triple(1))) == Triple(1)


def test_values_cannot_change_and_copies_are_checked() -> None:
    pair = Pair(1)
    with pytest.raises(AttributeError, match=r"replace\(first=\.\.\.\)"):
        pair.first = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="first stays"):
        del pair.first
    assert pair.replace(first=4) == Pair(4)
    with pytest.raises(ValueError, match="equal"):
        pair.replace(first=2)
    assert pair == Pair(1)


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
