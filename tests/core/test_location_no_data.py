"""`no_data` of a location: a second reserved value, opt-in, charged as any value, in words."""

import json
from datetime import date

import pytest

from metric_design.review import check_metrics
from rappor_core.errors import MetricsFileError
from rappor_core.grid.box import NO_DATA, OTHER
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import reserved_values
from rappor_core.metrics.metric import Metric

BASE = """
[metrics.density]
kind = "location"
description = "The usual place"
owner = "maps@example.org"
expires = 2027-06-30
grid = "square"
box = [0, 0, 8, 8]
rows = 4
columns = 4
levels = [0]
"""
APART = 'no_data = "no_data"\n'
EPSILONS = "epsilon_infinity = 2.0\nepsilon_one = 1.0\n"
FILTER = f'mode = "memo"\nnum_bits = 32\nnum_cohorts = 64\nmechanism = "l-osue"\n{EPSILONS}'
MEMO = FILTER + "max_memoized_values = 3\n"
SYMBOLS = f'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 64\n{EPSILONS}'
WINDOW = 'mode = "window"\nwindow = 30\nmax_reports = 4\nencoding = "one_hot"\nepsilon = 1.0\n'
ONCE = 'mode = "once"\nnum_bits = 32\nnum_cohorts = 64\nepsilon = 4.0\n'
MODES = [MEMO, SYMBOLS, WINDOW, ONCE]


def read(*parts: str) -> Metric:
    return parse_metrics(BASE + "".join(parts)).metrics["density/day/0"]


@pytest.mark.parametrize("mode", MODES)
def test_it_is_another_meaning_and_costs_nothing(mode: str) -> None:
    plain, apart = read(mode), read(mode, APART)
    assert "no_data" not in json.dumps(plain.to_dict())
    assert "no_data" not in plain.meaning
    assert apart.params_id != plain.params_id
    assert Metric.from_dict(json.loads(json.dumps(apart.to_dict()))) == apart
    assert apart.lifetime_epsilon == plain.lifetime_epsilon
    assert apart.epsilon_one == plain.epsilon_one


def test_reserved_values_follow_the_cells() -> None:
    plain, apart = read(WINDOW), read(WINDOW, APART)
    assert (plain.num_values, apart.num_values, apart.params.num_bits) == (17, 18, 18)
    assert apart.value_bits(OTHER, 0) == plain.value_bits(OTHER, 0) == 1 << 16
    assert apart.value_bits(NO_DATA, 0) == 1 << 17
    assert apart.value_bits("not a cell", 0) == 1 << 16
    names = list(apart.rules.names(apart.to_dict()))
    assert names == [*plain.rules.names(plain.to_dict()), NO_DATA]
    assert reserved_values(None) == (OTHER,)
    assert reserved_values(NO_DATA) == (OTHER, NO_DATA)


def test_an_undeclared_no_data_is_other() -> None:
    assert read(WINDOW).value_bits(NO_DATA, 0) == read(WINDOW).value_bits(OTHER, 0)


def test_each_reserved_value_takes_a_cap_place() -> None:
    """Of a filter. Symbols are never past the cap, if it holds all of them."""
    with pytest.raises(MetricsFileError, match=r"= 2 leaves no place .*use 3 or more"):
        read(FILTER, "max_memoized_values = 2\n", APART)
    assert read(FILTER, "max_memoized_values = 2\n").max_memoized_values == 2
    assert read(SYMBOLS, APART).max_memoized_values == 2
    four = SYMBOLS.replace("num_symbols = 2", "num_symbols = 4")
    with pytest.raises(MetricsFileError, match=r"= 2 leaves no place"):
        read(four, "max_memoized_values = 2\n", APART)


def test_check_names_what_days_without_a_slot_send() -> None:
    slots = 'slots = ["work 9-17 weekdays"]\n'

    def told(*parts: str) -> list[str]:
        file = parse_metrics(BASE + MEMO + slots + "".join(parts))
        return [one.message for one in check_metrics(file, today=date(2026, 1, 1))]

    assert any("is `other` then" in text for text in told())
    assert any("is `no_data` then" in text for text in told(APART))
