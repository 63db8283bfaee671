"""`rappor decode` as a user calls it: files in, files out, exit codes."""

import io
import json
import signal
import sys
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from rappor_cli.__main__ import run
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

WORDS = [f"word{i}" for i in range(12)]
ONE = "--aggregate {}/5.json --candidates 1:2"
PARAMS = RapporParams.rappor(
    num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0.25, prob_p=0.25, prob_q=0.75
)


@pytest.fixture
def inputs(tmp_path):
    shares = np.repeat([0.25, 0.0], [4, 8])
    for day in (5, 6, 12):
        rng = np.random.default_rng(day)
        aggregate, _ = draw_aggregate(WORDS, shares, 40_000, PARAMS, rng, metric="page")
        when = date(2026, 1, day)
        stamped = replace(aggregate, first_day=when, last_day=when)
        (tmp_path / f"{day}.json").write_text(stamped.to_json())
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    return tmp_path


def files_of(inputs, *days):
    return [word for day in days for word in ("--aggregate", inputs / f"{day}.json")]


@pytest.fixture
def decode(inputs, rappor):
    """`rappor decode` of the counts of days, of the listed words."""

    def run(*arguments, days=(5,), words=inputs / "words.txt"):
        return rappor("decode", *files_of(inputs, *days), "--candidates", words, *arguments)

    return run


def test_table_and_files(inputs, decode, rappor):
    out = decode("-o", inputs / "out", "--correction", "bonferroni")
    assert "page: 4 values found" in out
    assert "word0" in out
    assert rappor.err == ""
    assert (inputs / "out" / "report.html").exists()


def test_json_for_machines(decode):
    results = json.loads(decode("--json", days=(5, 6)))
    assert results["summary"]["num_reports"] == 80_000
    assert {row["value"] for row in results["detected"]} >= set(WORDS[:4])


@pytest.mark.parametrize(("each", "windows"), [("day", 3), ("week", 2)])
def test_a_series(inputs, decode, each, windows):
    out = decode("--each", each, "-o", inputs / "s", days=(12, 5, 6))
    assert f"in {windows} windows" in out
    rows = (inputs / "s" / "series.csv").read_text().splitlines()
    assert len(rows) == 1 + windows * len({row.split(",")[3] for row in rows[1:]})
    assert rows[1].startswith("2026-01-05,")


def test_ranges_of_numbers_and_days_and_settings(inputs, decode):
    settings = ["--set", "repeats=2.5", "--set", "level=90%"]
    summary = json.loads(decode(*settings, "-o", inputs / "out", "--json", words="1:20:2"))[
        "summary"
    ]
    assert summary["num_candidates"] == 10
    assert summary["repetition"] == pytest.approx(2.5)
    assert json.loads((inputs / "out" / "manifest.json").read_text())["level"] == 0.9
    days = json.loads(decode("--json", words="2026-01-01:2026-01-09"))
    assert days["summary"]["num_candidates"] == 9


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("", 2, "give --aggregate FILE"),
        ("--collector http://127.0.0.1:1", 2, "--metric"),
        ("--params {}/words.txt", 2, "go together"),
        ("--aggregate {}/5.json", 1, "must be guessed to be found"),
        ("--aggregate {}/5.json --aggregate {}/5.json --candidates 1:2", 1, "overlap"),
        ("--aggregate {}/5.json --candidates 1:2 --alpha 2", 2, "alpha"),
        (f"{ONE} --metric page", 2, "--metric goes with --collector"),
        (f"{ONE} --set column=word", 2, "column goes with --candidates FILE"),
        (ONE + " --map {}/words.txt", 2, "give one of --candidates and --map"),
        (f"{ONE} --set lvel=2", 2, "the names are level, repeats, largest_p"),
    ],
)
def test_refusals_say_what_to_do(inputs, rappor, arguments, code, message):
    assert message in rappor.refused(
        "decode", *arguments.replace("{}", str(inputs)).split(), code=code
    )


def test_cohorts_can_be_left_out(decode):
    assert "2 of 32 cohorts were left out as asked" in decode("--set", "without_cohorts=3,7,3")


def test_outputs_that_are_files_are_refused_first(inputs, rappor, monkeypatch):
    monkeypatch.setattr("decoder.kinds.values.decode", None)
    words = inputs / "words.txt"
    said = rappor.refused("decode", *files_of(inputs, 5), "--candidates", words, "-o", words)
    assert "words.txt' cannot be written: it is a file, not a folder; give a writable" in said


def test_terminals_escape_values_they_cannot_show(inputs, monkeypatch):
    shares = np.array([0.5, 0.5])
    greek = ["\u03b1\u03b2", "\u03b3"]
    drawn, _ = draw_aggregate(greek, shares, 40_000, PARAMS, np.random.default_rng(1))
    (inputs / "8.json").write_text(drawn.to_json())
    (inputs / "greek.txt").write_text("\n".join(greek), encoding="utf-8")
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    command = ["rappor", "decode", "--aggregate", str(inputs / "8.json")]
    monkeypatch.setattr(sys, "argv", [*command, "--candidates", str(inputs / "greek.txt")])
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        run()
    signal.signal(signal.SIGINT, handler)
    assert ended.value.code == 0
    assert b"\\u03b1\\u03b2" in printed.getvalue()


def test_a_value_of_any_length_takes_one_line(inputs, decode):
    long = ["x" * 100_000, *WORDS[1:]]
    shares = np.repeat([0.5, 0.0], [2, 10])
    drawn, _ = draw_aggregate(long, shares, 40_000, PARAMS, np.random.default_rng(1))
    (inputs / "9.json").write_text(drawn.to_json())
    (inputs / "long.txt").write_text("\n".join(long))
    assert len(decode(days=(9,), words=inputs / "long.txt")) < 5_000
