"""What `rappor plan` writes is what `rappor metrics check` does not warn of.

One report for life is warned of by no part of the check. Of a report in each period the review says
nothing; the attacks of the check on whole lives may find devices by when their values change,
whatever the parameters.
"""

import json
from datetime import date
from pathlib import Path

import pytest

from decoder.errors import PlanError
from metric_design.kind_design import Question
from metric_design.plan import make_plan
from metric_design.review import check_metrics
from rappor_cli.main import main
from rappor_core.metrics.compiled import load_metrics
from tests.metric_texts import word

TABLE = {"description": "Planned", "owner": "o@example.org", "expires": date(2090, 1, 1)}
FEW = (
    (500, 6.0, "memo", 5, "category"),
    (500, 6.0, "auto", 5, "category"),
    (20_000, 6.0, "memo", 200, "string"),
    (20_000, 2.0, "once", 200, "string"),
    (1_000_000, 6.0, "memo", 50, "string"),
)


def warned(file: Path, devices: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["metrics", "check", str(file), "--population", str(devices), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return [one["message"] for one in found if one["level"] != "note"]


def reviewed(case: tuple[int, float, str, int, str], file: Path) -> list[str] | None:
    """What the review says of a plan; None where there is none."""
    devices, epsilon, mode, candidates, kind = case
    question = Question(
        name="planned",
        given={"kind": kind, **TABLE},
        devices=devices,
        epsilon=epsilon,
        mode=None if mode == "auto" else mode,
        candidates=candidates,
    )
    try:
        plan = make_plan(question)
    except PlanError:
        return None
    file.write_text(f"budget = 100.0\n\n{plan.table}")
    found = check_metrics(load_metrics(file), today=date(2026, 1, 1), population=devices)
    return [one.message for one in found if one.level != "note"]


@pytest.mark.parametrize("case", FEW)
def test_no_plan_is_warned_of(case: tuple[int, float, str, int, str], tmp_path: Path) -> None:
    assert reviewed(case, tmp_path / "metrics.toml") == []


@pytest.mark.long
def test_plan_files_pass_and_keep_old_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--devices", "20k", "--epsilon", "4", "--candidates", "20"]
    assert main(["plan", "page", *words, "-o", str(tmp_path / "one")]) == 0
    first = tmp_path / "one" / "metrics.toml"
    assert warned(first, 20_000, capsys) == []
    first.write_text(first.read_text().replace("budget = 4", "budget = 9"))
    more = [*words, "--metrics", str(first), "-o", str(tmp_path / "two")]
    assert main(["plan", "theme", *more]) == 0
    second = tmp_path / "two" / "metrics.toml"
    assert first.read_text().rstrip() in second.read_text()
    assert warned(second, 20_000, capsys) == []


@pytest.mark.parametrize("wrong", ["0", "1.5", "nan", "inf", "2e12", "many"])
def test_populations_are_whole_numbers(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(word("homepage"))
    assert main(["metrics", "check", str(file), "--population", wrong]) == 2
    assert f"'{wrong}' is not a" in " ".join(capsys.readouterr().err.split())
