"""Commands for one kind of metric refuse counts of another, before anything is decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from rappor_cli.main import main
from tests.kinds.worlds import world_of


@pytest.mark.parametrize(
    ("words", "kind", "right"),
    [
        (["density", "theme"], "category", "decode"),
        (["flows", "places"], "location", "density"),
        (["discover"], "category", "decode"),
    ],
)
def test_counts_of_another_kind(
    words: list[str], kind: str, right: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.json"
    file.write_text(world_of(kind).counts[0][0].to_json())
    for more in ([], ["--json"]):
        output = tmp_path / "out"
        assert main([*words, "--aggregate", str(file), "-o", str(output), *more]) == 1
        assert f"use rappor {right}" in capsys.readouterr().err
        assert not output.exists()


def test_a_discovery_of_another_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "counts.json"
    file.write_text(world_of("discover").counts[0][0].to_json())
    assert main(["discover", "nosuch", "--aggregate", str(file)]) == 1
    assert "of metric 'site', not of 'nosuch'" in capsys.readouterr().err


def test_windows_in_the_wrong_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "0.json", tmp_path / "1.json"]
    for file, counts in zip(files, world_of("category").counts, strict=True):
        file.write_text(counts[0].to_json())
    earlier, later = map(str, files)
    assert main(["compare", "theme", "--before", later, "--after", earlier]) == 1
    assert "swap them" in capsys.readouterr().err
    assert main(["compare", "theme", "--before", earlier, "--after", later]) == 0
