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
EPSILONS = "epsilon_infinity = 2.0\nepsilon_one = 1.0\n"


def test_epsilons_that_keep_nothing_are_named() -> None:
    with pytest.raises(
        MetricsFileError, match="epsilon_one = 1e-300 keeps nothing; use a larger one"
    ):
        parse_metrics(PLACE + "epsilon_infinity = 2.0\nepsilon_one = 1e-300\n")


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


def test_texts_that_no_device_encodes_are_named() -> None:
    long = "x" * 2_049
    with pytest.raises(MetricsFileError, match=r"fallback has 'xxx.*of 2,049 characters; 2,048"):
        parse_metrics(STRING.replace('"other"', f'"{long}"') + EPSILONS)
    with pytest.raises(MetricsFileError, match="categories has 'xxx"):
        parse_metrics(
            '[metrics.theme]\nkind = "category"\ndescription = "d"\nowner = "o"\n'
            f'expires = 2099-01-01\ncategories = ["a", "{long}"]\nmax_memoized_values = 3\n'
            + EPSILONS
        )
