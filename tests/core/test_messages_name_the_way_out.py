"""What is printed and refused is read by people: short, and with the word that was meant."""

from __future__ import annotations

import pytest

from client_sdk.errors import UnknownMetricError
from client_sdk.inspection import sentence
from rappor_cli.main import main
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

SEEN = declaration("seen", "boolean", epsilon_infinity=2.0, epsilon_one=1.0, max_memoized_values=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SEEN.replace("[metrics.", "[metric."), "table [metric.seen]; did you mean 'metrics'?"),
        (SEEN.replace("owner", "ovner"), "key ovner = 'o@example.org'; did you mean 'owner'?"),
        (SEEN.replace("epsilon_one", "epsilon_1"), "did you mean 'epsilon_one'?"),
        (f"budgets = 2\n{SEEN}", "unknown key budgets = 2; did you mean 'budget'?"),
        (f"xyzzy = 2\n{SEEN}", "unknown key xyzzy = 2; known are"),
    ],
)
def test_a_key_that_is_nearly_right_is_recognised(text: str, words: str) -> None:
    with pytest.raises(MetricsFileError) as raised:
        parse_metrics(text)
    assert words in str(raised.value)


def test_a_metric_that_is_nearly_right_is_recognised() -> None:
    near = str(UnknownMetricError("homepag", ["homepage", "theme"]))
    assert near == (
        "metric 'homepag' is not declared; did you mean 'homepage'?; declared are homepage, theme"
    )
    assert "mean" not in str(UnknownMetricError("zzz", ["homepage"]))
    with pytest.raises(MetricsFileError, match="did you mean 'seen'"):
        parse_metrics(SEEN).parts("sean")


def test_a_command_that_is_nearly_right_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metric"]) == 2
    said = capsys.readouterr().err
    assert said == "rappor: unknown command 'metric'; did you mean 'metrics'?; see rappor --help\n"


def test_a_metric_prints_in_a_line() -> None:
    file = parse_metrics(SEEN)
    assert str(file) == "metrics seen; budget none"
    assert str(file.metrics["seen"]) == (
        "seen (boolean): epsilon 1.00 a report, 4.00 for life, until 2099-06-30"
    )


def test_a_spent_budget_names_the_way_out() -> None:
    metrics = parse_metrics(SEEN).metrics
    said = sentence("closed:seen:nothing_left", metrics, budget=3.0)
    for words in ("used up, for good", "cap is 2 values at epsilon 2.00", "all metrics 3",
                  "set_consent(True, budget=NUMBER)"):  # fmt: skip
        assert words in said
    assert "cap" not in sentence("closed:seen:weaker_than_agreed:max_reports", metrics, budget=3.0)
