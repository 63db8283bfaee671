"""The kind `pair`: its tables in metrics.toml, its values, and what a reviewer is told."""

import pytest

from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.metrics.compiled import compiled_text, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.pair_kind import MAX_PAIRS

THEME = """
[metrics.theme]
kind = "category"
categories = ["dark", "light", "other"]
description = "Colors"
owner = "web@example.org"
expires = 2027-06-30
epsilon_infinity = 2.0
epsilon_one = 1.0
max_memoized_values = 3
"""
PAIR = """
[metrics.theme_crashed]
kind = "pair"
of = ["theme", "crashed"]
values.theme = ["dark", "light", "other"]
values.crashed = [false, true]
description = "Colors, and whether it crashed"
owner = "web@example.org"
expires = 2027-06-30
mechanism = "l-osue"
epsilon_infinity = 4.0
epsilon_one = 2.0
max_memoized_values = 4
fallback = "other | false"
"""


def pair(text: str = PAIR) -> Metric:
    return parse_metrics(text).metrics["theme_crashed"]


def test_a_pair_has_a_bit_for_each() -> None:
    metric = pair()
    assert (metric.params.encoding, metric.params.num_bits, metric.num_values) == ("one_hot", 6, 6)
    places = [
        metric.value_bits((theme, crashed), 0).bit_length() - 1
        for theme in ("dark", "light", "other")
        for crashed in (False, True)
    ]
    assert places == list(range(6))
    assert metric.value_bits("light | true", 0) == metric.value_bits(["light", True], 0)
    assert Metric.from_dict(metric.to_dict()) == metric
    file = parse_metrics(PAIR)
    assert read_compiled(compiled_text(file)) == file


def test_a_list_comes_from_the_named_metric() -> None:
    short = PAIR.replace('values.theme = ["dark", "light", "other"]\n', "")
    assert pair(THEME + short).params_id == pair().params_id
    other = pair(THEME.replace('"light"', '"pale"') + short)
    assert other.params_id != pair().params_id
    with pytest.raises(MetricsFileError, match="'theme', which is neither a list of `values`"):
        parse_metrics(short)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (("pink", True), "the value of 'theme' is not one of its 3"),
        ({"dark", True}, "not a set"),
        ("pink | true", "the text is not one of its pairs"),
        ("x" * 1_000_000, "the text is not one of its pairs"),
        (("e\u0301" * 1_000_000, True), "the value of 'theme' is not one of its 3"),
    ],
)
@pytest.mark.parametrize("hashed", [False, True])
def test_what_is_no_pair_is_refused_unseen(value: object, said: str, hashed: bool) -> None:
    metric = pair(PAIR + ("num_bits = 16\nnum_cohorts = 8\n" if hashed else ""))
    with pytest.raises(ValueRefusedError, match=said) as raised:
        metric.value_bits(value, 0)
    assert "pink" not in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('of = ["theme", "crashed"]', 'of = ["theme"]', "is not a list of two names"),
        ('of = ["theme", "crashed"]', 'of = ["theme", "theme"]', "theme"),
        ('of = ["theme", "crashed"]', "of = 3", "of = 3 is not a list of two names"),
        ("[false, true]", "[false, 1]", "give text alone, or false and true"),
        ('"dark"', '"a | b"', r"holds '\|'"),
        ('"dark"', '"light"', "two or more different values"),
        ("values.crashed", "values.x = [false, true]\nvalues.crashed", "values.x is not one of"),
        ('"other | false"', '"other"', "not one of the pairs, written as 'other | true'"),
        ('fallback = "other | false"', "", "fallback = None is missing"),
        ("max_memoized_values = 4", "max_memoized_values = 1", "leaves no place"),
        ("owner", "num_hashes = 1\nowner", "num_hashes = 1 is fixed by kind = 'pair'"),
    ],
)
def test_a_wrong_table_is_refused_by_value(old: str, new: str, said: str) -> None:
    with pytest.raises(MetricsFileError, match=said):
        parse_metrics(PAIR.replace(old, new))


def test_large_tables_are_hashed_and_bounded() -> None:
    def listed(count: int) -> str:
        return str([f"v{i}" for i in range(count)]).replace("'", '"')

    text = PAIR.replace('["dark", "light", "other"]', listed(129)).replace("other |", "v0 |")
    with pytest.raises(MetricsFileError, match="num_bits is missing: 258 pairs"):
        parse_metrics(text)
    assert pair(text + "num_bits = 128\nnum_cohorts = 32\n").num_values == 258
    text = text.replace("[false, true]", listed(600)).replace("| false", "| v0")
    with pytest.raises(MetricsFileError, match=f"77,400 pairs, {MAX_PAIRS:,} at most"):
        parse_metrics(text + "num_bits = 128\nnum_cohorts = 32\n")


def test_no_data_is_a_pair_too() -> None:
    assert pair(PAIR + 'no_data = "other | true"\n').no_data == "other | true"
    with pytest.raises(MetricsFileError, match="no_data = 'none'"):
        pair(PAIR + 'no_data = "none"\n')
