"""A file of candidates that is not what its name says is refused."""

import gzip
from pathlib import Path

import pytest

from decoder.candidates.files import read_values
from decoder.candidates.lists import Candidates
from decoder.errors import CandidatesError


@pytest.mark.parametrize("name", ["pages.txt.gz", "pages.csv.gz", "PAGES.GZ"])
def test_a_file_that_is_not_gzip_says_so(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("home\nhelp\n")
    with pytest.raises(CandidatesError, match="not gzip, although its name ends in"):
        Candidates.from_file(file)
    file.write_bytes(gzip.compress(b"home\nhelp\n"))
    assert len(list(read_values(file))) == 2
