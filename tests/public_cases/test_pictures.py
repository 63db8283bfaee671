"""No file is left half written when one fails."""

from pathlib import Path

import pytest

from decoder.errors import OutputError
from decoder.files import write_files


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("a defect")])
def test_no_file_is_left_when_one_fails(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "a.csv").write_text("before")

    def failing(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises((OutputError, ValueError)):
        write_files(tmp_path, {"a.csv": lambda path: path.write_text("new"), "b.svg": failing})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "before"}
