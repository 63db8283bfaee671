"""What `rappor release build` says of a folder whose files were damaged, edited or mixed."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rappor_cli.main import main
from tests.cli.command import Rappor
from tests.cli.release_support import POLICY, rows_of

Build = Callable[[Path], str]
AGAIN = "decode it again with rappor decode -o"


@pytest.fixture
def build(tmp_path: Path, rappor: Rappor) -> Build:
    """What is said of a folder that is refused, in a line, with nothing published."""
    rules = tmp_path / "release.toml"
    rules.write_text(POLICY)
    more = ["--policy", rules, "-o", tmp_path / "out", "--issued", "2026-12-01"]

    def refused(folder: Path) -> str:
        rappor("release", "build", folder, *more, code=1)
        assert not (tmp_path / "out").exists()
        assert len(rappor.err.splitlines()) == 1
        assert "Error(" not in rappor.err
        return rappor.err

    return refused


@pytest.fixture
def words(decoded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(decoded / "word", tmp_path / "words"))


@pytest.fixture
def places(density: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(density, tmp_path / "places"))


def edit(path: Path, changes: dict[str, str], row: int = 0) -> None:
    """Write other texts into a row of a CSV file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[row] |= changes
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("kind", "column", "text", "result"),
    [
        ("words", "shrunken", "5.5", "estimate 5.5 lies outside its interval"),
        ("words", "estimate", "5.5", "unbiased estimate 5.5 lies outside its interval"),
        ("words", "selected_low", ".9", "the interval 0.9 to 0."),
        ("words", "selected_high", ".1", "to 0.1 has its ends swapped"),
        ("words", "std_error", "0", "standard error 0 is not above 0"),
        ("words", "std_error", "1e300", "is no share of the reports"),
        ("words", "shrunken", "abc", "line 2, column 'shrunken': 'abc' is not a number: write "
         "digits and a point, as 4227.5, without thousands separators or a decimal comma"),
        ("words", "detected", "yes", "line 2, column 'detected': 'yes' is neither true nor false"),
        ("places", "estimate", "-1", "estimate -1 lies outside its interval"),
        ("places", "reports", "6e4", "line 2, column 'reports': '6e4' is not a whole number of at "
         "most 18 digits"),
    ],
)  # fmt: skip
def test_edited_cells_are_never_published(kind, column, text, result, request, build) -> None:
    folder = request.getfixturevalue(kind)
    file = folder / {"words": "candidates.csv", "places": "density.csv"}[kind]
    edit(file, {column: text})
    said = build(folder)
    assert f"{file}: " in said
    assert result in said
    assert {"words": AGAIN, "places": "make the map again with rappor density -o"}[kind] in said
    if "line 2" not in result:
        assert {"words": "word, 2026-11-02 to 2026-11-02: 'the': ", "places": "slot="}[kind] in said


@pytest.mark.parametrize("name", ["candidates.csv", "manifest.json", "results.json"])
def test_a_lost_file_is_named(name: str, words: Path, build: Build) -> None:
    (words / name).unlink()
    assert f"{words / name}: no such file or directory; {AGAIN}" in build(words)
    assert "contains neither results.json" in build(words.parent)


@pytest.mark.parametrize("kind", ["words", "places"])
def test_byte_order_marks_are_taken(kind, request, tmp_path) -> None:
    folder = request.getfixturevalue(kind)
    rules = tmp_path / "rules.toml"
    rules.write_text(POLICY, encoding="utf-8-sig")
    found = []
    for out in ("as written", "by a spreadsheet"):
        assert main(["release", "build", str(folder), "--policy", str(rules), "-o",
                     str(tmp_path / out), "--issued", "2026-12-01"]) == 0  # fmt: skip
        found.append(rows_of(tmp_path / out))
        for path in folder.glob("*.csv"):
            text = path.read_text().replace("true", "TRUE").replace("false", "FALSE")
            path.write_text(text, encoding="utf-8-sig")
    assert found[0] == found[1]
    assert any(row["estimate"] for row in found[0])


def test_broken_lines_are_named(words: Path, build: Build) -> None:
    path = words / "candidates.csv"
    first, second, third, *_ = path.read_bytes().split(b"\n")
    for line, result in (
        (b"\xff" + third, "is not UTF-8"),
        (third + b",", "cells, and the first line"),
        (b'"a"b', "check the quotes"),
    ):
        path.write_bytes(b"\n".join([first, second, line, b""]))
        said = build(words)
        assert f"{path}: line 3" in said
        assert result in said


def test_broken_documents_are_named(words: Path, places: Path, build: Build) -> None:
    source = words / "manifest.json"
    edit_json(source, first_day="2026-13-01")
    assert f"{source}: first_day = '2026-13-01': Input should be a valid date" in build(words)
    edit_json(source, first_day="2026-11-02", level=7)
    assert "level = 7.0 must lie in (0, 1)" in build(words)
    source.write_text("{")
    assert f"{source}: " in build(words)
    source.write_text("[]")
    assert f"{source}: Input should be an object; {AGAIN}" in build(words)
    (places / "density.geojson").write_text("{}")
    assert f"{places / 'density.geojson'}: features: Field required" in build(places)


def test_results_of_two_kinds_are_refused(words, places, tmp_path, build) -> None:
    both = Path(shutil.copytree(words, tmp_path / "both"))
    shutil.copytree(places, both, dirs_exist_ok=True)
    kept = "density.csv of rappor density -o and candidates.csv of rappor decode -o"
    assert f"{kept}; write each into a separate folder" in build(both)
    (words / "joint.csv").touch()
    assert "candidates.csv of rappor decode -o and joint.csv" in build(words)
    (words / "candidates.csv").unlink()
    assert "joint.csv of a metric of pairs, which rappor release synthesize" in build(words)
