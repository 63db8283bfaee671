"""Jobs without the command line: what they tell, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoder.sources.aggregates import AggregateFiles
from decoder.workflows.decoding import CandidateChoice, DecodeJob, run_decode

GOLDEN = Path(__file__).parents[1] / "golden"
STRINGS = AggregateFiles((GOLDEN / "aggregates" / "strings.json",))
WORDS = CandidateChoice(GOLDEN / "candidates.txt")


def test_errors_of_progress_end_a_decoding(tmp_path: Path) -> None:
    job, told = DecodeJob(STRINGS, WORDS, output=tmp_path / "out"), []

    def stopped(stage: str, done: int, total: int) -> None:
        raise InterruptedError(stage)

    with pytest.raises(InterruptedError):
        run_decode(job, stopped)
    assert list((tmp_path / "out").iterdir()) == []
    run_decode(job, lambda stage, *_: told.append(stage))
    assert told
    assert (tmp_path / "out" / "results.csv").exists()
