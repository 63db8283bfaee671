"""google/rappor's report CSV: in, summed as its own tool sums it, and out again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rappor_cli.main import main
from rappor_core.aggregate import Aggregate

PARAMS = "k,h,m,p,q,f\n12,2,4,0.5,0.75,0.5\n"
METRICS = """
[metrics.seen]
kind = "string"
description = "a test"
owner = "test@example.org"
expires = 2099-12-31
num_bits = 12
num_hashes = 2
num_cohorts = 4
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
min_reports = {least}
min_reports_per_cohort = 5
keep_raw_days = 30
"""


def google_lines(count: int) -> list[tuple[int, str]]:
    """(cohort, irr) of a fixed seed; cohort 2 is empty."""
    rng = random.Random(2)
    return [(rng.choice((0, 1, 3)), f"{rng.getrandbits(12):012b}") for _ in range(count)]


def google_sums(lines: list[tuple[int, str]]) -> list[list[int]]:
    """As sum_bits.py of google/rappor: a row a cohort, the total and the bits, lowest first."""
    sums = [[0] * 13 for _ in range(4)]
    for cohort, irr in lines:
        sums[cohort][0] += 1
        for i, character in enumerate(irr):
            if character == "1":
                sums[cohort][12 - i] += 1
    return sums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A report file, its params.csv, and a metrics.toml."""
    rows = [f"user{n % 7},{cohort},,,{irr}" for n, (cohort, irr) in enumerate(google_lines(100))]
    (tmp_path / "reports.csv").write_text("\n".join(["client,cohort,bloom,prr,irr", *rows]) + "\n")
    (tmp_path / "params.csv").write_text(PARAMS)
    (tmp_path / "metrics.toml").write_text(METRICS.format(least=100))
    return tmp_path


def run(folder: Path, *more: str, file: str = "reports.csv") -> int:
    places = [str(folder / file), str(folder / "archive")]
    return main(["archive", "import", *places, "--metric", "seen", "--unencrypted", *more])


def summed(folder: Path, *more: str) -> Aggregate:
    output = folder / "sum.json"
    command = ["archive", "aggregate", str(folder / "archive"), "seen", "-o", str(output)]
    assert main([*command, *more]) == 0
    return Aggregate.from_json(output.read_text())


@pytest.mark.parametrize("dated", [False, True])
def test_a_report_file_comes_in_and_goes_out(folder: Path, dated: bool) -> None:
    days = ["--from", "2999-01-01", "--to", "2999-01-07"] if dated else []
    params = ["--params", str(folder / "params.csv"), "--keep-days", "9"]
    assert run(folder, *params, *days) == 0
    found, lines = summed(folder), google_lines(100)
    totals = [[n, *row] for n, row in zip(found.reports_per_cohort, found.bit_counts, strict=True)]
    assert totals == google_sums(lines)
    assert (found.first_day is None) != dated
    out = folder / "out.csv"
    assert main(["archive", "csv", str(folder / "archive"), "seen", "-o", str(out)]) == 0
    header, *rows = [line.split(",") for line in out.read_text().splitlines()]
    assert header == ["client", "cohort", "bloom", "prr", "irr"]
    assert sorted((int(row[1]), row[4]) for row in rows) == sorted(lines)
    assert len({row[0] for row in rows}) == 100
    assert out.stat().st_mode & 0o777 == 0o600
    assert not any(
        b"user" in p.read_bytes() for p in (folder / "archive").rglob("*") if p.is_file()
    )


def test_single_reports_are_given_of_whole_parts_only(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file that is gone, or holds other reports than its entry says, none is written."""
    params = ["--params", str(folder / "params.csv"), "--keep-days", "9"]
    lines = (folder / "reports.csv").read_text().splitlines()
    (folder / "fewer.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert run(folder, *params) == 0
    assert run(folder, *params, file="fewer.csv") == 0
    whole, fewer = sorted((folder / "archive" / "reports").rglob("*.parquet"),
                          key=lambda path: path.stat().st_mtime)  # fmt: skip
    out = folder / "out.csv"
    write = ["archive", "csv", str(folder / "archive"), "seen", "-o", str(out)]
    whole.write_bytes(fewer.read_bytes())
    assert main(write) == 1
    assert "do not give the sums" in capsys.readouterr().err
    whole.unlink()
    assert main(write) == 1
    assert f"{whole.name}: missing" in capsys.readouterr().err
    assert not out.exists()


def test_the_same_file_comes_in_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    params = ["--params", str(folder / "params.csv"), "--keep-days", "9"]
    assert run(folder, *params) == 0
    assert run(folder, *params) == 1
    assert "in the archive already" in capsys.readouterr().err
    assert run(folder, *params, "--from", "2999-01-01", "--to", "2999-01-07") == 1
    text = (folder / "reports.csv").read_text()
    (folder / "more.csv").write_text(text + "x,0,,,000000000001\n")
    assert run(folder, *params, "--from", "2999-01-01", "--to", "2999-01-07", file="more.csv") == 1
    assert "overlap" in capsys.readouterr().err
    assert run(folder, *params, file="more.csv") == 0
    assert summed(folder).num_reports == 201


def test_a_declared_metric_brings_floors_and_retention(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = ["--metrics", str(folder / "metrics.toml")]
    days = ["--from", "2999-01-01", "--to", "2999-01-07"]
    (folder / "metrics.toml").write_text(METRICS.format(least=101))
    assert run(folder, *declared, *days) == 1
    assert "min_reports = 101" in capsys.readouterr().err
    assert not (folder / "archive" / "entries").exists()
    (folder / "metrics.toml").write_text(METRICS.format(least=100))
    assert run(folder, *declared, *days, "--keep-days", "400") == 0
    assert "kept until 2999-01-31" in capsys.readouterr().err
    assert summed(folder).definition


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x,4,,,000000000001", "line 102: cohort '4'"),
        ("x,-1,,,000000000001", "line 102: cohort"),
        ("x,0,,,00000000001", "line 102: irr"),
        ("x,0,,,00000000000x", "line 102: irr"),
        ("x,0,,", "line 102: 4 cells of 5"),
    ],
)
def test_a_line_that_is_no_report_is_named(
    folder: Path, line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "reports.csv").open("a") as file:
        file.write(line + "\n")
    assert run(folder, "--params", str(folder / "params.csv"), "--keep-days", "9") == 1
    assert said in capsys.readouterr().err
    assert not (folder / "archive" / "reports").exists()


def test_wrong_usage_is_said(folder: Path) -> None:
    params = ["--params", str(folder / "params.csv")]
    assert run(folder) == 2
    assert run(folder, *params) == 1  # how long is it kept?
    assert run(folder, *params, "--keep-days", "9", "--from", "2999-01-01") == 2
    (folder / "reports.csv").write_text("cohort,irr\n")
    assert run(folder, *params, "--keep-days", "9") == 1
    (folder / "reports.csv").write_text("client,cohort,bloom,prr,irr\n")
    assert run(folder, *params, "--keep-days", "9") == 1
