"""The kind `pair`: its tables in metrics.toml, its values, and what a reviewer sees."""

import json
from pathlib import Path
from typing import Any

import pytest

from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.metrics.compiled import compiled, read_compiled
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


def test_a_list_comes_from_the_named_metric() -> None:
    short = PAIR.replace('values.theme = ["dark", "light", "other"]\n', "")
    assert pair(THEME + short).params_id == pair().params_id
    other = pair(THEME.replace('"light"', '"pale"') + short)
    assert other.params_id != pair().params_id
    with pytest.raises(MetricsFileError, match="'theme', which is neither a list in `values`"):
        parse_metrics(short)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('of = ["theme", "crashed"]', 'of = ["theme"]', "is not a list of two names"),
        ('of = ["theme", "crashed"]', 'of = ["theme", "theme"]', "theme"),
        ('of = ["theme", "crashed"]', "of = 3", "of = 3 is not a list of two names"),
        ("[false, true]", "[false, 1]", "give text alone, or false and true"),
        ('"dark"', '"a | b"', r"contains '\|'"),
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


CONTENT = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "pairs.json").read_text())


def test_the_file_compiles_to_the_vector() -> None:
    file = parse_metrics(CONTENT["toml"])
    assert compiled(file) == CONTENT["compiled"]
    assert read_compiled(json.dumps(CONTENT["compiled"])) == file


@pytest.mark.parametrize("row", CONTENT["values"], ids=lambda row: ascii(row["value"]))
def test_bits_of_a_value(row: dict[str, Any]) -> None:
    metric = parse_metrics(CONTENT["toml"]).metrics[row["metric"]]
    for cohort, bits in enumerate(row["bits"]):
        assert metric.value_bits(row["value"], cohort) == bits


@pytest.mark.parametrize("row", CONTENT["refused"], ids=lambda row: ascii(row["value"]))
def test_refused_values(row: dict[str, Any]) -> None:
    metric = parse_metrics(CONTENT["toml"]).metrics[row["metric"]]
    with pytest.raises(ValueRefusedError) as raised:
        metric.value_bits(row["value"], 0)
    assert str(raised.value) == row["error"]
