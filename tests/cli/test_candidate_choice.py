"""What `--candidates` takes of a file is said; a file that is not what its name says is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from decoder.candidates.files import read_values
from decoder.candidates.lists import Candidates
from decoder.errors import CandidatesError
from decoder.kinds.result import Question
from decoder.kinds.values import chosen_candidates
from decoder.options import CandidateChoice
from rappor_cli.text import print_note
from rappor_core.aggregate import Aggregate


def _aggregate() -> Aggregate:
    return None  # type: ignore[return-value]  # not looked at where a list is given


@pytest.mark.parametrize("name", ["pages.csv", "pages.csv.gz"])
def test_of_several_columns_the_one_taken_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = tmp_path / name
    text = b"page,visits\nhome,3\nhelp,4\n"
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    chosen_candidates(_aggregate(), Question(CandidateChoice(file)), print_note)
    told = capsys.readouterr().err
    assert "has 2 columns; the first is taken" in told
    assert "'page'" in told
    assert "--set column=NAME" in told
    chosen_candidates(_aggregate(), Question(CandidateChoice(file, "page")), print_note)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["pages.txt.gz", "pages.csv.gz", "PAGES.GZ"])
def test_a_file_that_is_not_gzip_says_so(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("home\nhelp\n")
    with pytest.raises(CandidatesError, match="not gzip, although its name ends in"):
        Candidates.from_file(file)
    file.write_bytes(gzip.compress(b"home\nhelp\n"))
    assert len(list(read_values(file))) == 2
