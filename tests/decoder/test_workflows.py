"""Jobs without the command line: what they tell, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from decoder.errors import CandidatesError, DecodeError
from decoder.sources.aggregates import AggregateFiles, GoogleTables
from decoder.sources.density_windows import LocationFiles, LocationWindows
from decoder.sources.windows import Each
from decoder.workflows.decoding import CandidateChoice, DecodeJob, run_decode, run_series
from decoder.workflows.maps import MapJob, run_maps, write_maps
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

GOLDEN = Path(__file__).parents[1] / "golden"
STRINGS = AggregateFiles((GOLDEN / "aggregates" / "strings.json",))
WORDS = CandidateChoice(GOLDEN / "candidates.txt")
PLACES = LocationFiles(tuple(sorted((GOLDEN / "aggregates").glob("places-*.json"))))


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


def test_maps_tell_of_each_window() -> None:
    shown: list[tuple[str, int, int]] = []
    run_maps(MapJob("places", PLACES), lambda *told: shown.append(told))
    assert shown == [("maps", 0, 2), ("maps", 1, 2), ("maps", 2, 2)]


def test_a_series_reads_its_windows_in_order(tmp_path: Path) -> None:
    params = RapporParams.rappor(
        num_bits=16, num_hashes=1, num_cohorts=2, prob_f=0, prob_p=0.25, prob_q=0.75
    )
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    paths = []
    for day in (1, 3, 2):
        drawn, _ = draw_aggregate(
            ["one", "two"], np.array([0.5, 0.5]), 4_000, params, np.random.default_rng(day)
        )
        drawn = replace(drawn, first_day=date(2026, 11, day), last_day=date(2026, 11, day))
        paths.append(tmp_path / f"{day}.json")
        paths[-1].write_text(drawn.to_json())
    job = DecodeJob(AggregateFiles(tuple(paths)), CandidateChoice(tmp_path / "words.txt"))
    assert len(run_series(job, Each.DAY).windows) == 3
    assert job.source.read() == AggregateFiles(tuple(sorted(paths))).read()


def test_map_files_are_named_and_pages_noted(tmp_path: Path) -> None:
    maps = run_maps(MapJob("places", PLACES))
    assert {slot for slot, one in maps.last().items() if one.since_first} == {"night"}
    names = write_maps(maps, tmp_path, ["What can be tracked."])
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert "What can be tracked." in (tmp_path / "density.html").read_text(encoding="utf-8")


def test_ignored_settings_are_refused_in_words() -> None:
    with pytest.raises(CandidatesError, match="give one of"):
        CandidateChoice(Path("a.txt"), numbers=(1, 2))
    with pytest.raises(DecodeError, match="cells or a region"):
        MapJob("places", PLACES, cells=Path("a"), region=Path("b"))
    with pytest.raises(DecodeError, match="no aggregate file"):
        AggregateFiles(()).read()
    with pytest.raises(DecodeError, match="names no days"):
        GoogleTables(Path("params.csv"), Path("counts.csv"), "md5").windows(Each.DAY)


def test_windows_ending_before_they_begin_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoder.sources.density_windows.ask_json", lambda *_: {"metrics": []})
    window = (date(2026, 11, 2), date(2026, 11, 1))
    with pytest.raises(DecodeError, match="2026-11-02, is after the last, 2026-11-01"):
        list(LocationWindows("http://127.0.0.1:9", window).read("places"))
