"""`rappor plan` as it is typed."""

import json
from pathlib import Path

import pytest
from typer import BadParameter

from rappor_cli import plan as plan_command
from rappor_cli.main import main
from rappor_core.metrics.compiled import load_metrics


def test_files_json_and_the_check_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "theme", "--share", "2%", "--devices", "1,000,000",
             "--kind", "category", "--candidates", "8", "--json", "-o", str(tmp_path)]  # fmt: skip
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["solved_for"] == "epsilon"
    assert told == json.loads((tmp_path / "plan.json").read_text())
    assert "Approval" in (tmp_path / "plan.html").read_text()
    assert load_metrics(tmp_path / "metrics.toml").metrics["theme"].kind == "category"
    assert main(["metrics", "check", str(tmp_path / "metrics.toml")]) == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--share", ".5"], 1, "devices and epsilon are not known"),
        (["--share", "0,5%", "--devices", "1M"], 2, "write a point, not a comma"),
        (
            ["--devices", "1M", "--epsilon", "6", "--kind", "boolean", "--values", "5"],
            1,
            "values = 5: a boolean has 2",
        ),
        (["Bad", "--devices", "1M", "--epsilon", "6"], 1, "metric name 'Bad'"),
    ],
)
def test_errors_name_the_value(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == code
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000,000", 1e6),
        ("1 000 000", 1e6),
        ("12,345.5", 12_345.5),
        ("1,200 k", 1.2e6),
        ("2 %", 0.02),
    ],
)
def test_numbers_as_people_write_them(text: str, value: float) -> None:
    assert plan_command.number(text) == value


@pytest.mark.parametrize(
    "text",
    ["0,5%", "1,5M", "1,00,000", ",5", "1,0000", "5 M M", "0,001", "0,125%", "1.234,567",
     "1000,000", "1,000,0000", "0 500"],
)  # fmt: skip
def test_a_decimal_comma_is_no_thousands_separator(text: str) -> None:
    """`0,5%` was read as 5 %, `1,5M` as 15 million, and `0,001` as 1."""
    with pytest.raises(BadParameter, match="is not a number"):
        plan_command.number(text)


@pytest.mark.long
def test_epsilons_that_protect_nobody_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth of a per cent of a million devices costs 41 nats a life, and nothing said so."""
    words = ["plan", "rare", "--share", "0.1%", "--devices", "1M", "--mode", "memo"]
    assert main([*words, "-o", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "a life promises next to nothing. With --epsilon 6 the same devices let you see" in text
    assert "promises next to nothing" in (tmp_path / "plan.html").read_text()
    assert "promises next to nothing" in json.loads((tmp_path / "plan.json").read_text())["weak"]


def test_it_asks_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["", "1M", "6", "20", ""])
    monkeypatch.setattr(plan_command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(plan_command.typer, "prompt", lambda *_, **__: next(answers))
    assert main(["plan"]) == 0
    assert "you will see the" in capsys.readouterr().out
