"""`-o` never replaces what somebody else wrote; lists may be JSON."""

from pathlib import Path

import numpy as np
import pytest

from decoder import Candidates
from decoder.errors import CandidatesError
from rappor_cli.main import main
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate


@pytest.fixture
def decoding(tmp_path: Path) -> list[str]:
    params = RapporParams(32, 2, 4, TwoRoundMechanism.rappor(0.5, 0.4, 0.6))
    drawn, _ = draw_aggregate(["a", "b"], np.array([0.6, 0.4]), 20_000, params,
                              np.random.default_rng(1))  # fmt: skip
    (tmp_path / "a.json").write_text(drawn.to_json())
    (tmp_path / "list.json").write_text('["a", "b", "c"]')
    return ["decode", "--aggregate", str(tmp_path / "a.json"),
            "--candidates", str(tmp_path / "list.json")]  # fmt: skip


def test_a_decoding_replaces_its_own_folder_alone(
    decoding: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, mine, other = tmp_path / "ours", tmp_path / "mine", tmp_path / "other"
    for _ in range(2):
        assert main([*decoding, "-o", str(ours)]) == 0
    mine.mkdir()
    (mine / "report.html").write_text("of mine")
    assert main([*decoding, "-o", str(mine)]) == 1
    said = capsys.readouterr().err
    assert "holds 'report.html', and no results.json of this command" in said
    assert [path.name for path in mine.iterdir()] == ["report.html"]
    assert (mine / "report.html").read_text() == "of mine"
    (mine / "results.json").write_text("[1]")
    assert main([*decoding, "-o", str(mine)]) == 1
    other.mkdir()
    (other / "notes.txt").write_text("kept")
    assert main([*decoding, "-o", str(other)]) == 0
    assert (other / "notes.txt").read_text() == "kept"


def test_an_aggregate_replaces_no_file_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("of mine")
    command = ["aggregate", "page", "--collector", "http://127.0.0.1:9", "-o", str(mine)]
    assert main(command) == 1
    assert "is there and no aggregate, so it is not replaced" in capsys.readouterr().err
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
