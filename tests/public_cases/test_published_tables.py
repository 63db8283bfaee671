"""What users' tables broke in `rappor release`: numbers, missing values and trees of strangers."""

from pathlib import Path

import pytest

from decoder.errors import OutputError
from decoder.files import write_files
from rappor_cli.main import main

REGIONS = "N,land\nS,land\n"


def written(folder: Path, **files: str) -> dict[str, Path]:
    paths = {name: folder / f"{name}.csv" for name in files}
    for name, path in paths.items():
        path.write_text(files[name], encoding="utf-8")
    return paths


def anonymize(files: dict[str, Path], out: Path, *more: str) -> list[str]:
    tree = f"region={files['region']}"
    words = ["release", "anonymize", str(files["people"]), "--columns", "region", "--k", "2"]
    return [*words, "--hierarchy", tree, "-o", str(out), *more]


def test_negative_numbers_stay_numbers(tmp_path: Path) -> None:
    """woocommerce #53020, grafana #17363: they left as text, with an apostrophe."""
    rows = "".join(f"N,{-number % 7 - 3}\n" for number in range(20))
    files = written(tmp_path, people="region,saldo\n" + rows, region=REGIONS)
    out = tmp_path / "out.csv"
    assert main(anonymize(files, out, "--keep", "saldo")) == 0
    lines = out.read_text().splitlines()[1:]
    assert {line.split(",")[1] for line in lines} == {str(number) for number in range(-3, 4)}


@pytest.mark.parametrize("age", ["[20,29]", "]23,45]", "<=23", ">23", "any age", "NA", "", "23"])
def test_measures_take_intervals_and_missing_values(age: str, tmp_path: Path) -> None:
    """SDMetrics #303: a traceback on the product's own output."""
    before = "region,age\n" + "".join(f"N,{20 + number}\n" for number in range(30))
    after = "region,age\n" + f'N,"{age}"\n' * 30
    files = map(str, written(tmp_path, before=before, after=after).values())
    words = ["--columns", "region,age", "--numbers", "age"]
    assert main(["release", "measure", *files, *words]) == 0


@pytest.mark.parametrize(
    ("numbers", "result"),
    [("agee", "'agee' is not one of the columns region, age"),
     ("region", "column 'region': 'N' is not a number or interval")],
)  # fmt: skip
def test_measures_name_what_is_no_number(numbers, result, tmp_path, capsys) -> None:
    """SDMetrics #303: a misspelled column was ignored."""
    rows = "region,age\n" + "".join(f"N,{20 + number}\n" for number in range(30))
    people = str(written(tmp_path, people=rows)["people"])
    words = ["--columns", "region,age", "--numbers", numbers]
    assert main(["release", "measure", people, people, *words]) == 1
    assert result in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["", "NA", "?", "null"])
def test_missing_values_are_no_diversity(missing, tmp_path, capsys) -> None:
    """sdcMicro #300: all of N who say an illness say the same; N joins S, or a warning comes."""
    rows = "region,illness\n" + "N,hepatitis\n" * 3
    rows += f'N,"{missing}"\nS,flu\nS,flu\nS,cold\nS,cold\n'
    files = written(tmp_path, people=rows, region=REGIONS)
    out = tmp_path / "out.csv"
    words = anonymize(files, out, "--keep", "illness")
    assert main(words) == 0
    assert "all rows of a class say the same" in capsys.readouterr().err
    assert main([*words, "--sensitive", "illness", "--distinct", "2"]) == 0
    assert {line.split(",")[0] for line in out.read_text().splitlines()[1:]} == {"land"}


@pytest.mark.parametrize(
    ("tree", "result"),
    [("N,land\nN,land\nS,land\n", "line 2, column 1: 'N' is already in line 1"),
     ("N,land\nS\n", "line 2 has 1 cells, and the first line 2"),
     ("N,land\nS ,land\n", "line 2, column 1: 'S ' begins or ends with a blank"),
     ("N\nS\n", "line 1 must be a leaf, its ancestors and the root"),
     ("N,a;land\nS,a;land\n", "line 1 must be a leaf, its ancestors and the root")],
)  # fmt: skip
def test_trees_are_refused_by_line(tree, result, tmp_path, capsys) -> None:
    """ARX's files: a leaf twice gave a wrong loss, and no message named file and line."""
    files = written(tmp_path, people="region\n" + "N\nS\n" * 4, region=tree)
    assert main(anonymize(files, tmp_path / "out.csv")) == 1
    error = capsys.readouterr().err
    assert "region.csv: " in error
    assert result in error


def test_semicolons_are_found_in_tables_and_trees(tmp_path: Path) -> None:
    """ARX's own example has them."""
    files = written(tmp_path, people="region;age\n" + "N;1\nS;2\n" * 4, region="N;land\nS;land\n")
    out = tmp_path / "out.csv"
    assert main(anonymize(files, out)) == 0
    assert len(out.read_text().splitlines()) == 9


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("a defect")])
def test_no_file_is_left_when_one_fails(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "a.csv").write_text("before")

    def failing(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises((OutputError, ValueError)):
        write_files(tmp_path, {"a.csv": lambda path: path.write_text("new"), "b.svg": failing})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "before"}
