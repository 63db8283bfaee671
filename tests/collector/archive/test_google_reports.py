"""google/rappor's report CSV: summed as its own tool sums it."""

import random
from pathlib import Path

import pytest

from collector.archive import sums
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate

PARAMS = "k,h,m,p,q,f\n12,2,4,0.5,0.75,0.5\n"


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
    """A report file, and its params.csv."""
    rows = [f"user{n % 7},{cohort},,,{irr}" for n, (cohort, irr) in enumerate(google_lines(100))]
    (tmp_path / "reports.csv").write_text("\n".join(["client,cohort,bloom,prr,irr", *rows]) + "\n")
    (tmp_path / "params.csv").write_text(PARAMS)
    return tmp_path


def run(folder: Path, *more: str) -> int:
    command = ["archive", "sum", str(folder / "reports.csv"), "seen"]
    params = ["--params", str(folder / "params.csv")]
    return main([*command, *params, "-o", str(folder / "sum.json"), *more])


def test_a_report_file_is_summed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in pieces; who sent what is not in the aggregate."""
    monkeypatch.setattr(sums, "_LINES", 7)
    assert run(folder) == 0
    text = (folder / "sum.json").read_text()
    found = Aggregate.from_json(text)
    totals = [[n, *row] for n, row in zip(found.reports_per_cohort, found.bit_counts, strict=True)]
    assert totals == google_sums(google_lines(100))
    assert found.first_day is None
    assert "user" not in text


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
    assert run(folder) == 1
    assert said in capsys.readouterr().err
    assert not (folder / "sum.json").exists()
