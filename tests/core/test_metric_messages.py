"""Messages about a `metrics.toml` name the key and the value as they were written."""

from datetime import date

import pytest

from metric_design.review import check_metrics
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics

STRING = """
[metrics.page]
kind = "string"
description = "Pages"
owner = "web@example.org"
expires = 2099-12-31
num_bits = 32
num_hashes = 2
num_cohorts = 4
max_memoized_values = 3
fallback = "other"
"""
PLACE = """
[metrics.place]
kind = "location"
description = "Places"
owner = "web@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [13]
mode = "memo"
encoding = "symbol"
num_symbols = 2
num_cohorts = 4
"""
FILTER = "num_bits = 8\nnum_hashes = 2\nnum_cohorts = 4"
NOTHING = """
[metrics.other]
kind = "{kind}"
description = "Words"
owner = "web@example.org"
expires = 2099-12-31
max_memoized_values = 2
epsilon_infinity = 2.0
epsilon_one = 1e-300
{shape}
"""
EPSILONS = "epsilon_infinity = 2.0\nepsilon_one = 1.0\n"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (PLACE + "epsilon_infinity = 2.0\nepsilon_one = 1e-300\n", "epsilon_one = 1e-300"),
        (
            PLACE.replace(
                'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2',
                'mode = "once"\nnum_bits = 32',
            )
            + "epsilon = 1e-300\n",
            "epsilon = 1e-300",
        ),
        (NOTHING.format(kind="string", shape=FILTER), "epsilon_one = 1e-300"),
        (NOTHING.format(kind="boolean", shape=""), "epsilon_one = 1e-300"),
        (NOTHING.format(kind="category", shape='categories = ["a", "b"]'), "epsilon_one = 1e-300"),
    ],
)
def test_epsilons_that_keep_nothing_are_named(text: str, key: str) -> None:
    with pytest.raises(MetricsFileError, match=f"{key} keeps nothing; use a larger one"):
        parse_metrics(text)


def test_probabilities_that_keep_nothing_are_no_epsilon() -> None:
    probabilities = "prob_f = 0.5\nprob_p = 0.5\nprob_q = 0.5\n"
    place = PLACE.replace('"symbol"\nnum_symbols = 2', '"bloom"\nnum_bits = 8')
    with pytest.raises(MetricsFileError, match=r"p = q = 0\.5; choose q different from p"):
        parse_metrics(f"{place}max_memoized_values = 3\n{probabilities}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLACE.replace("[42.0", "[43.0"), r"box: \[43.0, -72.8, 42.5, -72.4\] is empty"),
        (PLACE.replace('"memo"', '"never"'), "mode = 'never' is not one of memo, window, once"),
    ],
)
def test_values_stand_in_messages_as_they_were_written(text: str, said: str) -> None:
    with pytest.raises(MetricsFileError, match=said):
        parse_metrics(text + EPSILONS)


def test_check_refuses_control_characters_and_empty_fallbacks() -> None:
    def found(text: str) -> list[tuple[str, str]]:
        findings = check_metrics(parse_metrics(text + EPSILONS), today=date(2026, 1, 1))
        return [(one.level, one.message) for one in findings if one.metric == "page"]

    assert found(STRING) == []
    assert found(STRING.replace('"Pages"', '"""Pages\n\tof a site"""')) == []
    ((level, message),) = found(STRING.replace("Pages", "Pa\\u0007ges\\u202e"))
    assert level == "error"
    assert r"description = 'Pa\x07ges\u202e' holds a control character" in message
    ((level, message),) = found(STRING.replace('"other"', '""'))
    assert (level, message.startswith("fallback = '' is a value without a name")) == ("error", True)
