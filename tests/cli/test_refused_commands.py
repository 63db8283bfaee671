"""What a command refuses before anything is decoded: other kinds, orders, levels and slots."""

import json
from pathlib import Path

import numpy as np
import pytest

from decoder import Candidates
from decoder.errors import CandidatesError, DecodeError, OutputError
from decoder.kinds.interface import decoder_of
from decoder.kinds.result import MANIFEST, Question
from decoder.kinds.run import decode_counts, write_result
from decoder.progress import quiet, silent
from decoder.sources import aggregates
from decoder.sources.aggregates import window_of
from decoder.sources.windows import SplitName
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.cli.command import Rappor
from tests.kinds.worlds import DECLARED, World, world_of


@pytest.mark.parametrize(
    ("words", "kind", "right"),
    [
        (["density", "theme"], "category", "decode"),
        (["flows", "places"], "location", "density"),
        (["discover"], "category", "decode"),
    ],
)
def test_counts_of_another_kind(words, kind, right, tmp_path, rappor) -> None:
    file = tmp_path / "counts.json"
    file.write_text(world_of(kind).counts[0][0].to_json())
    for more in ([], ["--json"]):
        output = tmp_path / "out"
        said = rappor.refused(*words, "--aggregate", file, "-o", output, *more)
        assert f"use rappor {right}" in said
        assert not output.exists()


def test_a_discovery_of_another_metric(tmp_path: Path, rappor: Rappor) -> None:
    file = tmp_path / "counts.json"
    file.write_text(world_of("discover").counts[0][0].to_json())
    said = rappor.refused("discover", "nosuch", "--aggregate", file)
    assert "of metric 'site', not of 'nosuch'" in said


def test_windows_in_the_wrong_order(tmp_path: Path, rappor: Rappor) -> None:
    files = [tmp_path / "0.json", tmp_path / "1.json"]
    for file, counts in zip(files, world_of("category").counts, strict=True):
        file.write_text(counts[0].to_json())
    earlier, later = map(str, files)
    assert "swap them" in rappor.refused("compare", "theme", "--before", later, "--after", earlier)
    rappor("compare", "theme", "--before", earlier, "--after", later)


def test_levels_are_between_0_and_1(tmp_path: Path, rappor: Rappor) -> None:
    file = tmp_path / "counts.json"
    file.write_text(world_of("category").counts[0][0].to_json())
    for level in ("0", "1", "nan"):
        said = rappor.refused("decode", "--aggregate", file, "--alpha", level, code=2)
        assert "is not between 0 and 1" in said


def test_slots_of_a_comparison_must_meet(tmp_path: Path) -> None:
    before, after = (
        World("location", DECLARED["location"].replace("night 22-6", slot)).counts[number][0]
        for number, slot in enumerate(("night 22-6", "day 6-22"))
    )
    with pytest.raises(DecodeError, match="the windows share no slot; they have night and day"):
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
    with pytest.raises(OutputError, match="of an earlier result remains"):
        write_result(result, kind, "decode", tmp_path, silent)
    assert (tmp_path / "kept").is_dir()


@pytest.fixture
def decoding(tmp_path: Path) -> list[str]:
    params = RapporParams(32, 2, 4, TwoRoundMechanism.rappor(0.5, 0.4, 0.6))
    drawn, _ = draw_aggregate(["a", "b"], np.array([0.6, 0.4]), 20_000, params,
                              np.random.default_rng(1))  # fmt: skip
    (tmp_path / "a.json").write_text(drawn.to_json())
    (tmp_path / "list.json").write_text('["a", "b", "c"]')
    return ["decode", "--aggregate", str(tmp_path / "a.json"),
            "--candidates", str(tmp_path / "list.json")]  # fmt: skip


def test_a_decoding_replaces_its_own_folder_alone(decoding, tmp_path, rappor) -> None:
    ours, mine, other = tmp_path / "ours", tmp_path / "mine", tmp_path / "other"
    for _ in range(2):
        rappor(*decoding, "-o", ours)
    mine.mkdir()
    (mine / "report.html").write_text("of mine")
    said = rappor.refused(*decoding, "-o", mine)
    assert "holds 'report.html', and no results.json of this command" in said
    assert [path.name for path in mine.iterdir()] == ["report.html"]
    assert (mine / "report.html").read_text() == "of mine"
    (mine / "results.json").write_text("[1]")
    rappor(*decoding, "-o", mine, code=1)
    other.mkdir()
    (other / "notes.txt").write_text("kept")
    rappor(*decoding, "-o", other)
    assert (other / "notes.txt").read_text() == "kept"


def test_an_aggregate_replaces_no_file_that_is_none(tmp_path: Path, rappor: Rappor) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("of mine")
    command = ["aggregate", "page", "--collector", "http://127.0.0.1:9", "-o", str(mine)]
    assert "exists and is not an aggregate, so it is not replaced" in rappor.refused(*command)
    assert mine.read_text() == "of mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON, although its name says so"),
        ('{"a": 1}', r"not a list of strings, such as \[\"a\", \"b\"\]"),
        ('["a", 2]', "not a list of strings"),
    ],
)
def test_json_lists_are_read_or_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "list.json"
    path.write_text('["a", "b\\u00e9", "a"]')
    assert Candidates.from_file(path).values == [b"a", "bé".encode()]
    path.write_text(text)
    with pytest.raises(CandidatesError, match=why):
        Candidates.from_file(path)
    path.write_text("[]")
    with pytest.raises(CandidatesError, match="no candidates"):
        Candidates.from_file(path)
