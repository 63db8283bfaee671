"""`rappor decode --all-metrics`: the bytes of one by one, whoever decodes, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from decoder.files import read_aggregate_file
from decoder.options import DecodeOptions
from decoder.workflows.decoding import CandidateChoice
from decoder.workflows.farm import WindowResult, WindowTask, decode_window
from rappor_cli.decode_farm import collect
from rappor_cli.main import main
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.collector.support import Clock, make_metric, running_server

WORDS = [f"word{i}" for i in range(12)]
STRINGS = RapporParams.rappor(
    num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0.25, prob_p=0.25, prob_q=0.75
)
SWITCH = RapporParams.rappor(
    num_bits=1, num_hashes=1, num_cohorts=1, prob_f=0.25, prob_p=0.25, prob_q=0.75,
    encoding="boolean",
)  # fmt: skip
MONDAY = date(2026, 1, 5)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Two metrics, three weeks; the first week of `page` in two files."""
    shares = {"page": np.repeat([0.25, 0.0], [4, 8]), "dark": np.array([0.3, 0.7])}
    values = {"page": WORDS, "dark": ["true", "false"]}
    params = {"page": STRINGS, "dark": SWITCH}
    days = [("page", 0), ("page", 1), ("page", 7), ("page", 14), ("dark", 0), ("dark", 7)]
    for seed, (name, day) in enumerate(days):
        rng = np.random.default_rng(seed)
        drawn, _ = draw_aggregate(values[name], shares[name], 40_000, params[name], rng, name)
        when = MONDAY + timedelta(days=day)
        stamped = replace(drawn, first_day=when, last_day=when)
        (tmp_path / f"{name}-{day:02}.json").write_text(stamped.to_json())
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    return tmp_path


def decode(inputs: Path, files: list[str], *words: object) -> int:
    given = [word for file in files for word in ("--aggregate", str(inputs / file))]
    return main(["decode", *given, *map(str, words)])


def every(inputs: Path) -> list[str]:
    return sorted(path.name for path in inputs.glob("*-*.json"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def one_by_one(inputs: Path) -> dict[str, bytes]:
    """The files of five decodings, each by a command of its own."""
    for name, start, files in (
        ("page", 0, ["page-00.json", "page-01.json"]),
        ("page", 7, ["page-07.json"]),
        ("page", 14, ["page-14.json"]),
        ("dark", 0, ["dark-00.json"]),
        ("dark", 7, ["dark-07.json"]),
    ):
        words = ["--candidates", inputs / "words.txt"] if name == "page" else []
        folder = inputs / "single" / f"metric={name}" / str(MONDAY + timedelta(days=start))
        assert decode(inputs, files, "-o", folder, *words) == 0
    return contents(inputs / "single")


@pytest.mark.parametrize("workers", [1, 2])
def test_files_are_those_of_one_by_one(
    inputs: Path, one_by_one: dict[str, bytes], workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    out = inputs / "all"
    words = ["--all-metrics", "--each", "week", "--candidates", inputs / "words.txt", "-o", out]
    assert decode(inputs, every(inputs), *words, "--workers", workers) == 0
    assert "5 windows decoded, 0 refused" in capsys.readouterr().err
    found = contents(out)
    summary = list(csv.DictReader(found.pop("windows.csv").decode().splitlines()))
    assert found == one_by_one
    assert [row["metric"] for row in summary] == ["dark", "dark", "page", "page", "page"]
    assert summary[2]["first_day"] == "2026-01-05"
    assert summary[2]["last_day"] == "2026-01-06"
    assert summary[2]["reports"] == "80000"
    assert int(summary[2]["detected"]) >= 4


def test_strings_without_candidates_are_left_out(
    inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--all-metrics", "--each", "week", "-o", inputs / "all", "--workers", 1, "--json"]
    capsys.readouterr()
    assert decode(inputs, every(inputs), *words) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert (told["windows"], told["refused"]) == (2, 0)
    assert sum(did["windows"] for did in told["workers"].values()) == 2
    assert "left out page" in shown.err


def test_a_window_that_is_refused_ends_no_other(inputs: Path) -> None:
    """The list is not there on the worker: said of each window, exit 1, the others are whole."""
    (inputs / "words.txt").write_text("")
    words = ["--candidates", inputs / "words.txt", "--workers", 1, "-o", inputs / "all"]
    assert decode(inputs, every(inputs), "--all-metrics", "--each", "week", *words) == 1
    rows = list(csv.DictReader((inputs / "all" / "windows.csv").read_text().splitlines()))
    assert [bool(row["refused"]) for row in rows] == [False, False, True, True, True]
    assert "candidates" in rows[2]["refused"]
    assert (inputs / "all" / rows[0]["folder"] / "results.csv").exists()
    assert not (inputs / "all" / rows[2]["folder"]).exists()


def test_names_cannot_lead_out_of_the_folder(inputs: Path) -> None:
    text = (inputs / "dark-00.json").read_text().replace('"dark"', '"../../dark"')
    (inputs / "evil.json").write_text(text)
    words = ["--all-metrics", "--each", "day", "--workers", 1, "-o", inputs / "in" / "all"]
    assert decode(inputs, ["evil.json"], *words) == 0
    (folder,) = {path.parent for path in (inputs / "in").rglob("results.csv")}
    assert folder == inputs / "in" / "all" / "metric=..%2F..%2Fdark" / "2026-01-05"


def test_wrong_usage_is_said(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--all-metrics", "-o", "x"], "--each"),
        (["--all-metrics", "--each", "week"], "-o DIR"),
        (["--workers", "2"], "goes with"),
    ):
        assert decode(inputs, ["dark-00.json"], *words) == 2
        assert said in capsys.readouterr().err


def test_a_window_that_comes_twice_is_written_once(tmp_path: Path, inputs: Path) -> None:
    window = read_aggregate_file(inputs / "dark-00.json")
    task = WindowTask(window, CandidateChoice(), DecodeOptions(), "metric=dark/x")

    def run_twice(tasks: object) -> Iterator[tuple[WindowTask, WindowResult]]:
        result = decode_window(task)
        yield task, result
        yield task, replace(result, files={"results.csv": b"other"})

    done: list[int] = []
    found = collect([task], run_twice, tmp_path / "out", done.append)
    assert done == [1]
    written = (tmp_path / "out" / "metric=dark" / "x" / "results.csv").read_bytes()
    assert written == found["metric=dark/x"].files["results.csv"] != b"other"


def test_every_metric_that_a_collector_serves(tmp_path: Path) -> None:
    """Two metrics over HTTP: what is served of each; one without a closed day is no failure."""
    metrics = [make_metric(name, min_reports=1) for name in ("first", "second", "third")]
    database = f"sqlite:///{tmp_path}/collector.sqlite"
    with running_server(metrics, Clock(), database=database) as server:
        for metric in metrics[:2]:
            assert server.post(server.sender.reports(metric, 50)).status_code == 200
        server.clock.pass_days(9)
        (tmp_path / "words.txt").write_text("\n".join(WORDS))
        url = str(server.http.base_url)
        words = ["decode", "--collector", url, "--from", "2026-11-16", "--to", "2026-11-22",
                 "--all-metrics", "--each", "week", "--candidates", str(tmp_path / "words.txt"),
                 "--workers", "1", "-o", str(tmp_path / "out")]  # fmt: skip
        assert main(words) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "windows.csv").read_text().splitlines()))
    assert [(row["metric"], row["reports"]) for row in rows] == [("first", "50"), ("second", "50")]
