"""`rappor metrics check`: one verdict a metric, and what several share once."""

from pathlib import Path

import pytest

from rappor_cli.main import main
from tests.metric_texts import declaration


def theme(name: str, nats: float, expires: str = "2099-06-30") -> str:
    return declaration(name, "category", categories=["light", "dark", "auto"], expires=expires,
                       epsilon_infinity=nats, epsilon_one=0.5, max_memoized_values=3)  # fmt: skip


def check(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    file = folder / "metrics.toml"
    file.write_text("budget = 100.0\n" + text)
    code = main(["metrics", "check", str(file)])
    return code, capsys.readouterr().out


def test_each_metric_has_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A suspicion of 1 % may rise to 20 % (epsilon 3.2), and to 50 % (4.6) after a thought."""
    cases = {"small": 1.05, "middle": 1.4, "large": 1.6}
    text = "".join(theme(name, epsilon) for name, epsilon in cases.items())
    code, printed = check(text, tmp_path, capsys)
    verdicts = {line.split()[0]: line.split("  ")[1:] for line in printed.splitlines()[1:4]}
    assert code == 0
    assert {name: next(filter(None, row)).strip() for name, row in verdicts.items()} == {
        "small": "ship",
        "middle": "think",
        "large": "do not",
    }
    assert printed.count("No bound covers the whole sequence") == 1
    assert "small, middle, large: No bound covers" in printed


def test_an_error_is_a_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = check(theme("theme", 1.0, "2020-01-01"), tmp_path, capsys)
    assert code == 1
    assert "do not" in printed
    assert "error: theme: expired on 2020-01-01" in printed


@pytest.mark.parametrize(
    ("box", "named"),
    [
        ([-74.15, 40.55, -73.70, 40.95], True),  # New York, exchanged: in Antarctica
        ([2.2, 48.8, 2.5, 48.95], True),  # Paris, exchanged: in the Indian Ocean
        ([40.55, -74.15, 40.95, -73.70], False),
        ([-40.0, -30.0, -39.0, -29.0], False),  # sea either way
        ([-17.9, 179.0, -17.0, -179.5], False),  # over the antimeridian
    ],
)
def test_an_exchanged_box_is_named(box, named, tmp_path, capsys) -> None:
    text = declaration("place", "location", grid="square", box=box, rows=20, columns=20, levels=[0],
                       mode="once", num_bits=32, num_cohorts=64, epsilon=1.6)  # fmt: skip
    _, printed = check(text, tmp_path, capsys)
    assert ("latitude and longitude swapped" in printed) is named


def test_advice_for_browsers_goes_to_those_that_have_some(tmp_path, capsys) -> None:
    file, output = tmp_path / "metrics.toml", str(tmp_path / "metrics.json")
    for text, code in (("budget = 0.1\n", 1), ("", 0)):
        file.write_text(text + theme("theme", 1.0))
        assert main(["metrics", "compile", str(file), "-o", output]) == code
        error = capsys.readouterr().err
        assert ("browsers do not" not in error) is bool(text)
        assert "lives = " not in error
