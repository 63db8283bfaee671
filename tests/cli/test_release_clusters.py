"""`rappor release co-cluster` and `anonymize` on Iris."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from rappor_cli.main import main
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


def test_co_cluster_writes_what_it_found(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["release", "co-cluster", table, *CUT, "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "150 rows: 3 by 8 clusters and groups of values" in said
    assert "not for publication" in said
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
    assert main(["release", "co-cluster", table, *CUT, "-o", str(out)]) == 1
    assert "name a new folder" in capsys.readouterr().err


@pytest.mark.parametrize("way", ["synth", "coc", "coc-hg", "micro"])
def test_what_is_published_of_clusters(
    way: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["release", "co-cluster", table, *CUT, "-o", str(out), "--publish", way]
    assert main(words) == 2
    assert "--k" in capsys.readouterr().err
    assert main([*words, "--k", "60", "--floor", "10"]) == 0  # a species has 50 rows
    said = capsys.readouterr().out
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
    assert main([*words, "--k", "60", "--floor", "10"]) == 0
    same = rows_of(again / "published.csv")[1:] == rows
    assert same == (way != "synth")  # redrawn: no seed undoes it


def test_anonymize_along_learnt_and_given_trees(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.csv"
    words = ["release", "anonymize", table, "--k", "5", "-o", str(made)]
    numbers = ",".join(NUMBERS)
    learn = ["--columns", numbers, "--numbers", numbers, "--hierarchies", "learnt"]
    assert main([*words, *learn, "--keep", "Class"]) == 0
    assert "of 5 or more" in capsys.readouterr().out
    header, *rows = rows_of(made)
    assert header == (*NUMBERS, "Class")
    assert min(Counter(row[:4] for row in rows).values()) >= 5
    assert Counter(row[4] for row in rows) == dict.fromkeys(set(iris()["Class"]), 50)
    out = tmp_path / "out"
    assert main(["release", "co-cluster", table, *CUT, "-o", str(out)]) == 0
    given = ["--hierarchies", str(out / "hierarchies.json")]
    assert main([*words, "--columns", "SepalWidth", *given]) == 0
    seen = Counter(rows_of(made)[1:])
    assert seen == {("<=2.9",): 57, ("]2.9,3.2]",): 51, (">3.2",): 42}
    assert main([*words, "--columns", "SepalWidth", *given, "--k", "45"]) == 0
    assert Counter(rows_of(made)[1:]) == {("any SepalWidth",): 93, ("<=2.9",): 57}
    capsys.readouterr()
    assert main([*words, "--columns", "Color", *given]) == 1
    assert "no tree of Color" in capsys.readouterr().err
    assert main([*words, *learn, "--keep", "SepalWidth"]) == 2
    assert "published" in capsys.readouterr().err


def test_anonymize_along_own_trees_of_other_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, made, tree = tmp_path / "table.csv", tmp_path / "made.csv", tmp_path / "tree.csv"
    codes = ["75005", "75006", "59000", "59100"]
    tree.write_text("".join(f"{code},{code[:2]},FR\n" for code in codes))
    rows = [(code, plan) for code in codes for plan in (["basic"] * 3 if code < "6" else "abc")]
    table.write_text("code,plan\n" + "".join(f"{a},{b}\n" for a, b in rows))
    words = ["release", "anonymize", str(table), "--columns", "code", "--k", "3", "-o", str(made)]
    given = ["--hierarchy", f"code={tree}", "--keep", "plan"]
    assert main([*words, *given]) == 0
    assert "plan: all rows of a class say the same in 50.0% of the classes (6 rows)" in (
        capsys.readouterr().err
    )
    assert Counter(row[0] for row in rows_of(made)[1:]) == dict.fromkeys(codes, 3)
    differ = ["--sensitive", "plan", "--distinct", "2"]
    assert main([*words, *given, *differ]) == 0
    assert "warning" not in capsys.readouterr().err
    said: dict[str, set[str]] = {}
    for code, plan in rows_of(made)[1:]:
        said.setdefault(code, set()).add(plan)
    assert all(len(plans) >= 2 for plans in said.values())
    assert main([*words, *given, "--sensitive", "plan", "--closeness", "0"]) == 0
    assert {row[0] for row in rows_of(made)[1:]} == {"FR"}
    capsys.readouterr()
    for wrong, code, message in [
        (["--distinct", "2"], 2, "need --sensitive"),
        (["--hierarchies", "learnt"], 2, "nothing to do"),
        (["--hierarchy", f"town={tree}"], 2, "'town'"),
        ([*differ[:2], "--distinct", "9"], 1, "1 to 4 values"),
    ]:
        assert main([*words, *given, *wrong]) == code
        assert message in " ".join(capsys.readouterr().err.split())
    assert main([*words, "--keep", "plan"]) == 2
    assert "no tree of code" in capsys.readouterr().err


def test_values_that_a_spreadsheet_would_compute_are_text(tmp_path: Path) -> None:
    file, made = tmp_path / "table.csv", tmp_path / "made.csv"
    file.write_text("a,b\n" + "=1+1,x\n" * 4)
    assert main(["release", "anonymize", str(file), "--columns", "a,b", "--k", "2",
                 "--hierarchies", "learnt", "-o", str(made)]) == 0  # fmt: skip
    assert rows_of(made)[1] == ("'=1+1", "x")


def test_anonymous_tables_are_written_whole_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, made = tmp_path / "table.csv", tmp_path / "made.csv"
    text = "a,b\n" + "x,y\n" * 4
    file.write_text(text)
    words = ["release", "anonymize", str(file), "--columns", "a,b", "--k", "2",
             "--hierarchies", "learnt"]  # fmt: skip
    assert main([*words, "-o", str(tmp_path / "." / "table.csv")]) == 1
    assert "is the table itself" in capsys.readouterr().err
    assert file.read_text() == text
    made.write_text("earlier")

    class Full:
        def writerow(self, _: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("csv.writer", lambda *_, **__: Full())
    assert main([*words, "-o", str(made)]) == 1
    assert "cannot be written: no space left" in capsys.readouterr().err
    assert made.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.csv", "table.csv"]


def test_no_published_file_has_one_persons_value(table: str, tmp_path: Path) -> None:
    """Whatever the way, and along trees that were learnt for nobody to see."""
    text = Path(table).read_text().splitlines()
    lone = tmp_path / "lone.csv"
    lone.write_text("\n".join([*text[:-1], text[-1].rpartition(",")[0] + ",Zaphod"]) + "\n")
    for way in ("synth", "coc", "coc-hg", "micro"):
        out = tmp_path / way
        assert main(["release", "co-cluster", str(lone), *CUT, "-o", str(out), "--k", "20",
                     "--publish", way]) == 0  # fmt: skip
        assert "Zaphod" not in "".join(path.read_text() for path in out.iterdir())
    trees, made = tmp_path / "trees", tmp_path / "made.csv"
    assert main(["release", "co-cluster", str(lone), *CUT, "-o", str(trees)]) == 0
    for how in ("learnt", str(trees / "hierarchies.json")):
        words = ["--k", "5", "--hierarchies", how, "-o", str(made)]
        assert main(["release", "anonymize", str(lone), *CUT[:4], *words]) == 0
        assert "Zaphod" not in made.read_text()


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
