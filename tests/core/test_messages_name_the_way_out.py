"""What is printed and refused is read by people: short, and with the word that was meant."""

import pytest

from client_sdk.errors import UnknownMetricError
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
        (SEEN + "max_rep = 3\n", "key max_rep = 3; did you mean 'max_reports'?"),
        (SEEN + "epsilon_inf = 3\n", "key epsilon_inf = 3; did you mean 'epsilon_infinity'?"),
        (f"xyzzy = 2\n{SEEN}", "unknown key xyzzy = 2; known are"),
    ],
)
def test_a_key_that_is_nearly_right_is_recognized(text: str, words: str) -> None:
    with pytest.raises(MetricsFileError) as raised:
        parse_metrics(text)
    assert words in str(raised.value)


def test_a_metric_that_is_nearly_right_is_recognized() -> None:
    near = str(UnknownMetricError("homepag", ["homepage", "theme"]))
    assert near == (
        "metric 'homepag' is not declared; did you mean 'homepage'?; declared are homepage, theme"
    )
    assert "mean" not in str(UnknownMetricError("zzz", ["homepage"]))
    with pytest.raises(MetricsFileError, match="did you mean 'seen'"):
        parse_metrics(SEEN).parts("sean")


def test_a_command_that_is_nearly_right_is_recognized(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metric"]) == 2
    said = capsys.readouterr().err
    assert "No such command 'metric'. Did you mean 'metrics'?" in said
