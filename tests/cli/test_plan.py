"""`rappor plan` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rappor_cli import plan as plan_command
from rappor_cli.main import main
from rappor_core.metrics.file import load_metrics


def test_files_json_and_the_check_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "theme", "--share", "2%", "--devices", "1,000,000", "--complete",
             "--candidates", "8", "--seed", "1", "--json", "-o", str(tmp_path)]  # fmt: skip
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["solved_for"] == "epsilon"
    assert told["preview"]["found"] >= 6
    assert told == json.loads((tmp_path / "plan.json").read_text())
    assert "Approval" in (tmp_path / "plan.html").read_text()
    assert load_metrics(tmp_path / "metric.toml").metrics["theme"].kind == "category"
    assert main(["metrics", "check", str(tmp_path / "metric.toml")]) == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--share", ".5"], 1, "devices and epsilon are not known"),
        (["--devices", "abc"], 2, "'abc' is not a number"),
        (["--devices", "1k", "--epsilon-life", "6", "--expires", "2020-01-01"], 1, "is over"),
        (["--devices", "1M", "--epsilon-life", "6", "--delta", "0"], 1, "delta = 0"),
        (["Bad", "--devices", "1M", "--epsilon-life", "6"], 1, "metric name 'Bad'"),
    ],
)
def test_errors_name_the_value(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_it_asks_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["", "1M", "6", "", ""])
    monkeypatch.setattr(plan_command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(plan_command.typer, "prompt", lambda *_, **__: next(answers))
    assert main(["plan", "--no-preview"]) == 0
    assert "solved for share" in capsys.readouterr().out
