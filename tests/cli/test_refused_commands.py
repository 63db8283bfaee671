"""What a command refuses before anything is decoded: other kinds, orders, levels and slots."""

import json
from pathlib import Path

import pytest

from decoder.errors import DecodeError, OutputError
from decoder.kinds.interface import decoder_of
from decoder.kinds.result import MANIFEST, Question
from decoder.kinds.run import decode_counts, write_result
from decoder.progress import quiet, silent
from decoder.sources import aggregates
from decoder.sources.aggregates import window_of
from decoder.sources.windows import SplitName
from rappor_cli.main import main
from tests.kinds.worlds import DECLARED, World, world_of


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


def test_levels_are_between_0_and_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "counts.json"
    file.write_text(world_of("category").counts[0][0].to_json())
    for level in ("0", "1", "nan"):
        assert main(["decode", "--aggregate", str(file), "--alpha", level]) == 2
        assert "is not between 0 and 1" in capsys.readouterr().err


def test_slots_of_a_comparison_must_meet(tmp_path: Path) -> None:
    """Places of the night and of the day share no map."""
    before, after = (
        World("location", DECLARED["location"].replace("night 22-6", slot)).counts[number][0]
        for number, slot in enumerate(("night 22-6", "day 6-22"))
    )
    with pytest.raises(DecodeError, match="no slot is in both windows, which have night and day"):
        decode_counts("compare", [[before], [after]], Question(), silent, quiet)


def test_a_window_of_places_asks_for_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"metrics": [{"name": "places/night/0"}, {"name": "theme"}]}
    monkeypatch.setattr(aggregates, "ask_json", lambda *_: listed)
    assert window_of("http://c", "places", None, None).split is SplitName.WHOLE
    assert window_of("http://c", "theme", None, None).split is None


def test_an_earlier_file_that_stays_is_named(tmp_path: Path) -> None:
    """A manifest lists what is deleted; a folder of that name cannot be."""
    counts, kind = world_of("category").counts[0], decoder_of("category")
    result = decode_counts("decode", [list(counts)], Question(), silent, quiet)
    write_result(result, kind, "decode", tmp_path, silent)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | {"files": ["kept", ".."]}))
    (tmp_path / "kept").mkdir()
    with pytest.raises(OutputError, match="of an earlier result stays"):
        write_result(result, kind, "decode", tmp_path, silent)
    assert (tmp_path / "kept").is_dir()
