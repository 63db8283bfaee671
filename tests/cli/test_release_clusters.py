"""`rappor release co-cluster` and `anonymize` on Iris."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rappor_cli.main import main
from tests.cli.command import Rappor
from tests.disclosure.iris import NUMBERS, iris

NAMES = ",".join([*NUMBERS, "Class"])
CUT = ["--columns", NAMES, "--numbers", ",".join(NUMBERS), "--intervals", "3"]


@pytest.fixture
def table(tmp_path: Path) -> str:
    with (tmp_path / "iris.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(iris())
        writer.writerows(zip(*iris().values(), strict=True))
    return str(tmp_path / "iris.csv")


def rows_of(file: Path) -> list[tuple[str, ...]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return [tuple(row) for row in csv.reader(lines)]


def test_co_cluster_writes_what_it_found(table: str, tmp_path: Path, rappor: Rappor) -> None:
    out = tmp_path / "out"
    said = rappor("release", "co-cluster", table, *CUT, "-o", out)
    assert "150 rows: 3 by 8 clusters and groups of values" in said
    assert "do not publish them" in said
    assert sorted(path.name for path in out.iterdir()) == [
        "grid.json", "hierarchies.json", "index.html", "recoded.csv",
    ]  # fmt: skip
    grid = json.loads((out / "grid.json").read_text())
    assert sorted(grid["clusters"]) == [49, 50, 51]
    assert sum(map(sum, grid["counts"])) == 750
    assert ["Class", "setosa"] in grid["groups"][grid["counts"][0].index(150)]
    recoded = rows_of(out / "recoded.csv")
    assert recoded[1] == ("<=5.4", ">3.2", "<=2.633", "<=0.8667", "setosa")
    text = (out / "index.html").read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert "versicolor | virginica" in text
    assert "name a new folder" in rappor.refused("release", "co-cluster", table, *CUT, "-o", out)


@pytest.mark.parametrize("way", ["synth", "coc", "coc-hg", "micro"])
def test_what_is_published_of_clusters(way, table, tmp_path, rappor) -> None:
    out = tmp_path / "out"
    words = ["release", "co-cluster", table, *CUT, "-o", str(out), "--publish", way]
    assert "--k" in rappor.refused(*words, code=2)
    said = rappor(*words, "--k", "60", "--floor", "10")
    header, *rows = rows_of(out / "published.csv")
    assert ",".join(header) == NAMES
    assert len(rows) == 150
    assert rows == sorted(rows)  # the order of the rows reveals nothing
    if way == "synth":
        assert len(set(rows)) > 5
    else:
        assert min(Counter(rows).values()) >= 60
        assert "SepalWidth: " in said
        assert "with a value they do not have" in said
    again = tmp_path / "again"
    words = [str(again) if word == str(out) else word for word in words]
    rappor(*words, "--k", "60", "--floor", "10")
    same = rows_of(again / "published.csv")[1:] == rows
    assert same == (way != "synth")  # redrawn: no seed undoes it


def test_anonymize_along_learnt_and_given_trees(table: str, tmp_path: Path, rappor: Rappor) -> None:
    made = tmp_path / "made.csv"
    words = ["release", "anonymize", table, "--k", "5", "-o", str(made)]
    numbers = ",".join(NUMBERS)
    learn = ["--columns", numbers, "--numbers", numbers, "--hierarchies", "learnt"]
    assert "of 5 or more" in rappor(*words, *learn, "--keep", "Class")
    header, *rows = rows_of(made)
    assert header == (*NUMBERS, "Class")
    assert min(Counter(row[:4] for row in rows).values()) >= 5
    assert Counter(row[4] for row in rows) == dict.fromkeys(set(iris()["Class"]), 50)
    out = tmp_path / "out"
    rappor("release", "co-cluster", table, *CUT, "-o", out)
    given = ["--hierarchies", str(out / "hierarchies.json")]
    rappor(*words, "--columns", "SepalWidth", *given)
    seen = Counter(rows_of(made)[1:])
    assert seen == {("<=2.9",): 57, ("]2.9,3.2]",): 51, (">3.2",): 42}
    rappor(*words, "--columns", "SepalWidth", *given, "--k", "45")
    assert Counter(rows_of(made)[1:]) == {("any SepalWidth",): 93, ("<=2.9",): 57}
    assert "no tree for Color" in rappor.refused(*words, "--columns", "Color", *given)
    assert "published" in rappor.refused(*words, *learn, "--keep", "SepalWidth", code=2)


def test_anonymize_along_own_trees_of_other_values(tmp_path: Path, rappor: Rappor) -> None:
    table, made, tree = tmp_path / "table.csv", tmp_path / "made.csv", tmp_path / "tree.csv"
    codes = ["75005", "75006", "59000", "59100"]
    tree.write_text("".join(f"{code},{code[:2]},FR\n" for code in codes))
    rows = [(code, plan) for code in codes for plan in (["basic"] * 3 if code < "6" else "abc")]
    table.write_text("code,plan\n" + "".join(f"{a},{b}\n" for a, b in rows))
    words = ["release", "anonymize", str(table), "--columns", "code", "--k", "3", "-o", str(made)]
    given = ["--hierarchy", f"code={tree}", "--keep", "plan"]
    rappor(*words, *given)
    assert "plan: all rows of a class say the same in 50.0% of the classes (6 rows)" in (rappor.err)
    assert Counter(row[0] for row in rows_of(made)[1:]) == dict.fromkeys(codes, 3)
    differ = ["--sensitive", "plan", "--distinct", "2"]
    rappor(*words, *given, *differ)
    assert "warning" not in rappor.err
    said: dict[str, set[str]] = {}
    for code, plan in rows_of(made)[1:]:
        said.setdefault(code, set()).add(plan)
    assert all(len(plans) >= 2 for plans in said.values())
    rappor(*words, *given, "--sensitive", "plan", "--closeness", "0")
    assert {row[0] for row in rows_of(made)[1:]} == {"FR"}
    for wrong, code, message in [
        (["--distinct", "2"], 2, "need --sensitive"),
        (["--hierarchies", "learnt"], 2, "nothing to do"),
        (["--hierarchy", f"town={tree}"], 2, "'town'"),
        ([*differ[:2], "--distinct", "9"], 1, "must be 1 to 4"),
    ]:
        assert message in rappor.refused(*words, *given, *wrong, code=code)
    assert "no tree for code" in rappor.refused(*words, "--keep", "plan", code=2)


def test_values_that_a_spreadsheet_would_compute_are_text(tmp_path: Path) -> None:
    file, made = tmp_path / "table.csv", tmp_path / "made.csv"
    file.write_text("a,b\n" + "=1+1,x\n" * 4)
    assert main(["release", "anonymize", str(file), "--columns", "a,b", "--k", "2",
                 "--hierarchies", "learnt", "-o", str(made)]) == 0  # fmt: skip
    assert rows_of(made)[1] == ("'=1+1", "x")


def test_anonymous_tables_are_written_whole_or_not(tmp_path, monkeypatch, rappor) -> None:
    file, made = tmp_path / "table.csv", tmp_path / "made.csv"
    text = "a,b\n" + "x,y\n" * 4
    file.write_text(text)
    words = ["release", "anonymize", str(file), "--columns", "a,b", "--k", "2",
             "--hierarchies", "learnt"]  # fmt: skip
    assert "is the table itself" in rappor.refused(*words, "-o", tmp_path / "." / "table.csv")
    assert file.read_text() == text
    made.write_text("earlier")

    class Full:
        def writerow(self, _: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("csv.writer", lambda *_, **__: Full())
    assert "no space left on device; make room" in rappor.refused(*words, "-o", made)
    assert made.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.csv", "table.csv"]


def test_synthetic_rows_with_numbers_of_clusters_that_differ(table: str, tmp_path: Path) -> None:
    words = ["release", "co-cluster", table, *CUT, "--k", "20", "--publish", "synth"]
    ranges = [word for name in NUMBERS for word in ("--range", f"{name}=0:10")]
    differ = ["--sensitive", "Class", "--distinct", "2"]
    assert main([*words, *ranges, *differ, "-o", str(tmp_path / "out")]) == 0
    rows = rows_of(tmp_path / "out" / "published.csv")[1:]
    assert len(rows) == 150
    assert all(0 <= float(value) <= 10 for row in rows for value in row[:4])
    for wrong in (["--range", "SepalWidth"], ["--range", "SepalWidth=9"], differ[:2], differ[2:]):
        assert main([*words, *wrong, "-o", str(tmp_path / "other")]) == 2
    coc = [*words[:-1], "coc", *ranges, "-o", str(tmp_path / "other")]
    assert main(coc) == 2


CODES = ["75005", "75006", "59000", "59100"]


def write(file: Path, header: str, rows: object) -> str:
    lines = [",".join(map(str, row)) for row in rows]  # type: ignore[attr-defined]
    file.write_text("\n".join([header, *lines]) + "\n")
    return str(file)


def test_a_pair_of_tables_is_measured(tmp_path: Path, rappor: Rappor) -> None:
    rng = np.random.default_rng(1)
    rows = [(rng.choice(CODES), rng.integers(20, 60)) for _ in range(300)]
    before = write(tmp_path / "before.csv", "code,age", rows)
    after = write(tmp_path / "after.csv", "age,code", [(age, code[:2]) for code, age in rows])
    tree = tmp_path / "tree.csv"
    tree.write_text("".join(f"{code},{code[:2]},FR\n" for code in CODES))
    words = ["release", "measure", before, after, "--columns", "code,age", "--numbers", "age"]
    given = ["--hierarchy", f"code={tree}"]
    assert "Hellinger" in rappor(*words, *given, "-o", tmp_path / "made.csv")
    assert (tmp_path / "made.csv").read_text().startswith("measure,column,value,reading\n")
    rappor(*words, *given, "--json")
    found = {(m["name"], m["column"]): m["value"] for m in json.loads(rappor.out)}
    assert found["Hellinger", "age"] == 0
    assert 0 < found["Hellinger", "code"] < 0.2  # spread over the leaves
    assert "'town'" in rappor.refused(*words, "--hierarchy", f"town={tree}", code=2)


def test_a_series_is_charged_and_near_the_truth(tmp_path: Path, rappor: Rappor) -> None:
    """All coefficients, 2,000 persons in one slot each."""
    ledger, made = tmp_path / "ledger.json", tmp_path / "series.csv"
    rappor("release", "ledger", ledger, "--epsilon", "9")
    visits = write(
        tmp_path / "visits.csv", "person,slot", [(f"p{n}", n % 2 + 3) for n in range(2_000)]
    )
    words = ["release", "series", visits, "--slots", "8", "--most", "1", "--ledger", str(ledger)]
    words += ["-o", str(made)]
    rappor(*words, "--kept", "8", "--epsilon", "4")
    header, *rows = rows_of(made)
    assert header == ("slot", "persons")
    truth = [0, 0, 0, 1_000, 1_000, 0, 0, 0]
    assert all(abs(float(v) - t) < 60 for (_, v), t in zip(rows, truth, strict=True))
    rappor(*words, "--kept", "8", "--epsilon", "6", code=1)  # 5 are left
    rappor(*words, "--kept", "9", "--epsilon", "1", code=2)
    said = rappor.refused(*words, "--kept", "8", "--epsilon", "1", "--slots", "4")
    assert "slots must lie in [0, 4)" in said
    charges = json.loads(ledger.read_text())
    assert "series of 8 slots" in json.dumps(charges)
    assert "series of 4 slots" not in json.dumps(charges)
