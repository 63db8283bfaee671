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
from rappor_cli.main import main
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

WORDS = [f"word{i}" for i in range(12)]
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


def decode(inputs, *arguments, days=(5,)):
    files = [word for day in days for word in ("--aggregate", str(inputs / f"{day}.json"))]
    return main(["decode", *files, *map(str, arguments)])


def test_table_and_files(inputs, capsys):
    code = decode(
        inputs, "--candidates", inputs / "words.txt",
        "-o", inputs / "out", "--correction", "bonferroni",
    )  # fmt: skip
    assert code == 0
    shown = capsys.readouterr()
    assert "page: 4 values found" in shown.out
    assert "word0" in shown.out
    assert shown.err == ""
    assert (inputs / "out" / "report.html").exists()


def test_json_for_machines(inputs, capsys):
    assert decode(inputs, "--candidates", inputs / "words.txt", "--json", days=(5, 6)) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["summary"]["num_reports"] == 80_000
    assert {row["value"] for row in results["detected"]} >= set(WORDS[:4])


@pytest.mark.parametrize(("each", "windows"), [("day", 3), ("week", 2)])
def test_a_series(inputs, capsys, each, windows):
    words = ("--candidates", inputs / "words.txt")
    code = decode(inputs, *words, "--each", each, "-o", inputs / "s", days=(12, 5, 6))
    assert code == 0
    assert f"in {windows} windows" in capsys.readouterr().out
    rows = (inputs / "s" / "series.csv").read_text().splitlines()
    assert len(rows) == 1 + windows * len({row.split(",")[3] for row in rows[1:]})
    assert rows[1].startswith("2026-01-05,")


def test_nothing_found_is_no_failure(inputs, capsys):
    (inputs / "absent.txt").write_text("nobody\nholds\nthese\n")
    options = ("--candidates", inputs / "absent.txt", "--correction", "bonferroni")
    assert decode(inputs, *options) == 0
    assert "No value was found" in capsys.readouterr().out


def test_ranges_of_numbers_and_days_and_settings(inputs, capsys):
    words = ["--candidates", "1:20:2", "--set", "repeats=2.5", "--set", "level=90%"]
    assert decode(inputs, *words, "-o", inputs / "out", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert results["summary"]["num_candidates"] == 10
    assert results["summary"]["repetition"] == pytest.approx(2.5)
    assert json.loads((inputs / "out" / "manifest.json").read_text())["level"] == 0.9
    assert decode(inputs, "--candidates", "2026-01-01:2026-01-09", "--json") == 0
    assert json.loads(capsys.readouterr().out)["summary"]["num_candidates"] == 9


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["decode"], 2, "give --aggregate FILE"),
        (["decode", "--collector", "http://127.0.0.1:1"], 2, "--metric"),
        (["decode", "--params", "{}/words.txt"], 2, "go together"),
        (["decode", "--aggregate", "{}/5.json"], 1, "must be guessed to be found"),
        (
            [
                "decode",
                "--aggregate",
                "{}/5.json",
                "--aggregate",
                "{}/5.json",
                "--candidates",
                "1:2",
            ],
            1,
            "overlap",
        ),
        (["decode", "--aggregate", "{}/5.json", "--candidates", "1:2", "--alpha", "2"], 2, "alpha"),
    ],
)
def test_refusals_say_what_to_do(inputs, capsys, arguments, code, message):
    assert main([word.format(inputs) for word in arguments]) == code
    assert message in capsys.readouterr().err


def test_json_is_strict_where_numbers_are_not_finite(inputs, capsys):
    """An empty cohort has no residual; one-time RAPPOR has no bound for a device's life."""
    once = RapporParams.rappor(
        num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0, prob_p=0.25, prob_q=0.75
    )
    drawn, _ = draw_aggregate(WORDS, np.full(12, 1 / 12), 9_000, once, np.random.default_rng(1))
    (inputs / "7.json").write_text(drawn.without([2]).to_json())
    assert decode(inputs, "--candidates", inputs / "words.txt", "--json", days=(7,)) == 0

    def refuse(name):
        raise AssertionError(name)

    content = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert content["summary"]["epsilon_infinity"] is None
    assert content["diagnostics"]["cohort_z"][2] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--candidates", "1:2", "--metric", "page"], "--metric goes with --collector"),
        (["--candidates", "1:2", "--set", "column=word"], "column goes with --candidates FILE"),
        (["--candidates", "1:2", "--map", "{}/words.txt"], "give one of --candidates and --map"),
        (["--candidates", "1:2", "--set", "lvel=2"], "the names are level, repeats, largest_p"),
    ],
)
def test_what_would_be_ignored_is_refused(inputs, capsys, words, message):
    assert decode(inputs, *[word.format(inputs) for word in words]) == 2
    assert message in " ".join(capsys.readouterr().err.replace("\u2502", "").split())


def test_cohorts_can_be_left_out(inputs, capsys):
    words = ("--candidates", inputs / "words.txt", "--set", "without_cohorts=3,7,3")
    assert decode(inputs, *words) == 0
    assert "2 of 32 cohorts were left out as asked" in capsys.readouterr().out


def test_outputs_that_are_files_are_refused_first(inputs, capsys, monkeypatch):
    monkeypatch.setattr("decoder.kinds.values.decode", None)
    words = ("--candidates", inputs / "words.txt", "-o", inputs / "words.txt")
    assert decode(inputs, *words) == 1
    assert (
        "words.txt' cannot be written: it is a file, not a folder; give a folder"
        in capsys.readouterr().err
    )


def test_files_without_days_join_no_series(inputs, capsys):
    content = json.loads((inputs / "5.json").read_text())
    (inputs / "4.json").write_text(json.dumps(content | {"first_day": None, "last_day": None}))
    words = ("--candidates", inputs / "words.txt", "--each", "day")
    assert decode(inputs, *words, days=(4, 5)) == 1
    assert "no place in a series" in capsys.readouterr().err


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


def test_a_value_of_any_length_takes_one_line(inputs, capsys):
    long = ["x" * 100_000, *WORDS[1:]]
    shares = np.repeat([0.5, 0.0], [2, 10])
    drawn, _ = draw_aggregate(long, shares, 40_000, PARAMS, np.random.default_rng(1))
    (inputs / "9.json").write_text(drawn.to_json())
    (inputs / "long.txt").write_text("\n".join(long))
    assert decode(inputs, "--candidates", inputs / "long.txt", days=(9,)) == 0
    assert len(capsys.readouterr().out) < 5_000
