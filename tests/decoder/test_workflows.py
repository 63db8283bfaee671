"""Jobs without the command line: what they reveal, and what they refuse."""

from pathlib import Path

import pytest

from decoder.kinds.result import Question
from decoder.kinds.run import claim, decode_counts, write_result
from decoder.kinds.values import KIND
from decoder.options import CandidateChoice
from decoder.progress import quiet
from decoder.sources.aggregates import AggregateFiles

GOLDEN = Path(__file__).parents[1] / "golden"
STRINGS = AggregateFiles((GOLDEN / "aggregates" / "strings.json",))
WORDS = Question(CandidateChoice(GOLDEN / "candidates.txt"))


class StoppedError(Exception):
    """Raised by a progress function."""


def test_errors_of_progress_end_a_decoding(tmp_path: Path) -> None:
    folder, told = tmp_path / "out", list[str]()

    def stopped(stage: str, done: int, total: int) -> None:
        raise StoppedError(stage)

    claim(folder, KIND)
    with pytest.raises(StoppedError):
        decode_counts("decode", [STRINGS.read()], WORDS, stopped, quiet)
    result = decode_counts("decode", [STRINGS.read()], WORDS, lambda s, *_: told.append(s), quiet)
    assert told
    with pytest.raises(StoppedError):
        write_result(result, KIND, "decode", folder, stopped)
    assert list(folder.iterdir()) == []
