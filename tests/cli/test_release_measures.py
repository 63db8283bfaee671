"""`rappor release measure` and `series`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from rappor_cli.main import main

CODES = ["75005", "75006", "59000", "59100"]


def write(file: Path, header: str, rows: object) -> str:
    lines = [",".join(map(str, row)) for row in rows]  # type: ignore[attr-defined]
    file.write_text("\n".join([header, *lines]) + "\n")
    return str(file)


def rows_of(file: Path) -> list[list[str]]:
    with file.open(newline="") as lines:
        return list(csv.reader(lines))


def test_a_pair_of_tables_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    rows = [(rng.choice(CODES), rng.integers(20, 60)) for _ in range(300)]
    before = write(tmp_path / "before.csv", "code,age", rows)
    after = write(tmp_path / "after.csv", "age,code", [(age, code[:2]) for code, age in rows])
    tree = tmp_path / "tree.csv"
    tree.write_text("".join(f"{code},{code[:2]},FR\n" for code in CODES))
    words = ["release", "measure", before, after, "--columns", "code,age", "--numbers", "age"]
    given = ["--hierarchy", f"code={tree}"]
    assert main([*words, *given, "-o", str(tmp_path / "made.csv")]) == 0
    assert "Hellinger" in capsys.readouterr().out
    assert (tmp_path / "made.csv").read_text().startswith("measure,column,value,reading\n")
    assert main([*words, *given, "--json"]) == 0
    found = {(m["name"], m["column"]): m["value"] for m in json.loads(capsys.readouterr().out)}
    assert found["Hellinger", "age"] == 0
    assert 0 < found["Hellinger", "code"] < 0.2  # spread over the leaves
    assert main([*words, "--hierarchy", f"town={tree}"]) == 2
    assert "'town'" in capsys.readouterr().err


def test_a_series_is_charged_and_near_the_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All coefficients, 2,000 persons in one slot each."""
    ledger, made = tmp_path / "ledger.json", tmp_path / "series.csv"
    assert main(["release", "ledger", str(ledger), "--epsilon", "9"]) == 0
    visits = write(
        tmp_path / "visits.csv", "person,slot", [(f"p{n}", n % 2 + 3) for n in range(2_000)]
    )
    words = ["release", "series", visits, "--slots", "8", "--most", "1", "--ledger", str(ledger)]
    words += ["-o", str(made)]
    assert main([*words, "--kept", "8", "--epsilon", "4"]) == 0
    header, *rows = rows_of(made)
    assert header == ["slot", "persons"]
    truth = [0, 0, 0, 1_000, 1_000, 0, 0, 0]
    assert all(abs(float(v) - t) < 60 for (_, v), t in zip(rows, truth, strict=True))
    capsys.readouterr()
    assert main([*words, "--kept", "8", "--epsilon", "6"]) == 1  # 5 are left
    assert main([*words, "--kept", "9", "--epsilon", "1"]) == 2
    assert main([*words, "--kept", "8", "--epsilon", "1", "--slots", "4"]) == 1
    assert "slots must lie in [0, 4)" in capsys.readouterr().err
    charges = json.loads(ledger.read_text())
    assert "series of 8 slots" in json.dumps(charges)
    assert "series of 4 slots" not in json.dumps(charges)
