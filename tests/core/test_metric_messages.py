"""Messages about a `metrics.toml` name the key, the value and the word that was meant."""

from datetime import date

import pytest

from client_sdk.errors import UnknownMetricError
from docs.tools.metric_keys import PAGE, page
from metric_design.review import check_metrics
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

SHAPE = {"num_bits": 32, "num_hashes": 2, "num_cohorts": 4, "max_memoized_values": 3}
STRING = declaration("page", "string", description="Pages", fallback="other", **SHAPE)
EPSILONS = "epsilon_infinity = 2.0\nepsilon_one = 1.0\n"
THEME = {"epsilon_infinity": 2.0, "max_memoized_values": 3}
SEEN = declaration("seen", "boolean", epsilon_infinity=2.0, epsilon_one=1.0, max_memoized_values=2)


def test_epsilons_that_keep_nothing_are_named() -> None:
    text = declaration("theme", "category", categories=["a", "b"], epsilon_one=1e-300, **THEME)
    with pytest.raises(MetricsFileError, match="epsilon_one = 1e-300 keeps nothing"):
        parse_metrics(text)


def test_check_refuses_control_characters_and_empty_fallbacks() -> None:
    def found(text: str) -> list[tuple[str, str]]:
        findings = check_metrics(parse_metrics(text + EPSILONS), today=date(2026, 1, 1))
        return [(one.level, one.message) for one in findings if one.metric == "page"]

    assert found(STRING) == []
    assert found(STRING.replace('"Pages"', '"""Pages\n\tof a site"""')) == []
    ((level, message),) = found(STRING.replace("Pages", "Pa\\u0007ges\\u202e"))
    assert level == "error"
    assert r"description = 'Pa\x07ges\u202e' contains a control character" in message
    ((level, message),) = found(STRING.replace('"other"', '""'))
    assert (level, message.startswith("fallback = '' is blank")) == ("error", True)


def test_texts_that_no_device_encodes_are_named() -> None:
    long = "x" * 2_049
    with pytest.raises(
        MetricsFileError,
        match=r"fallback has 'xxx.*of 2,049 characters; a device encodes at most 2,048",
    ):
        parse_metrics(STRING.replace('"other"', f'"{long}"') + EPSILONS)
    with pytest.raises(MetricsFileError, match="categories has 'xxx"):
        parse_metrics(
            declaration("theme", "category", categories=["a", long], epsilon_one=1.0, **THEME)
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SEEN.replace("[metrics.", "[metric."), "table [metric.seen]; did you mean 'metrics'?"),
        (SEEN.replace("owner", "ovner"), "key ovner = 'o@example.org'; did you mean 'owner'?"),
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
    assert "'homepag' is not declared; did you mean 'homepage'?" in near
    assert "mean" not in str(UnknownMetricError("zzz", ["homepage"]))
    with pytest.raises(MetricsFileError, match="did you mean 'seen'"):
        parse_metrics(SEEN).parts("sean")


def test_the_page_of_keys_is_what_its_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
