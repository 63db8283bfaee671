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


def test_params_ids_are_golden() -> None:
    assert [read(mode, APART).params_id for mode in MODES] == [
        "4dfdc3af1aacd6900e7f20d4b74528d7", "2bafc9f13c284ef43a377cdfeb61c3e1",
        "ea54112de04977821c1d1511706f87c3", "0204cda84437fa36af8c2eeaf305d157",
    ]  # fmt: skip


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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('no_data = "none"\n', r"no_data = 'none' is not 'no_data', its reserved name"),
        ('no_data = "other"\n', "no_data = 'other' is not 'no_data'"),
        ('no_data = ""\n', "no_data = '' is not 'no_data'"),
        ("no_data = true\n", "no_data = True is not a string"),
        ("no_data = 3\n", "no_data = 3 is not a string"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_another_name_is_refused(line: str, why: str, mode: str) -> None:
    with pytest.raises(MetricsFileError, match=why):
        read(mode, line)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (MEMO, "of max_memoized_values = 3 they take 2 before any cell, and leave 1; once sent, "
               "each costs epsilon 2.00 like a cell, at most 6.00 for life"),
        (SYMBOLS, "each is sent as one of the 2 symbols, like a cell: a symbol costs epsilon 2.00, "
                  "all of them 4.00 for life"),
        (WINDOW, "a report costs epsilon 1.00 whatever its value, at most 4.00 for life"),
        (ONCE, "a report costs epsilon 4.00 whatever its value"),
    ],
)  # fmt: skip
def test_check_explains_both_in_a_sentence(mode: str, said: str) -> None:
    def notes(*parts: str) -> list[str]:
        file = parse_metrics("budget = 9\n" + BASE + "".join(parts))
        found = check_metrics(file, today=date(2026, 1, 1))
        return [one.message for one in found if one.level == "note"]

    assert not any("reserved" in note for note in notes(mode))
    (note,) = (note for note in notes(mode, APART) if "reserved" in note)
    assert note.startswith("two reserved values follow the cells: 'other' is a place outside")
    assert "'no_data' a slot and period without a fix; " in note
    assert said in note
    assert ("or past the cap" in note) is (mode is MEMO)


def test_check_speaks_of_trips_where_values_are_trips() -> None:
    file = parse_metrics("budget = 9\n" + BASE + MEMO + APART + "pairs = true\n")
    (note,) = (one.message for one in check_metrics(file, today=date(2026, 1, 1))
               if "reserved" in one.message)  # fmt: skip
    assert "a trip that begins or ends outside the box" in note
    assert "without a trip" in note


def test_check_names_what_days_without_a_slot_send() -> None:
    slots = 'slots = ["work 9-17 weekdays"]\n'

    def told(*parts: str) -> list[str]:
        file = parse_metrics(BASE + MEMO + slots + "".join(parts))
        return [one.message for one in check_metrics(file, today=date(2026, 1, 1))]

    assert any("is `other` then" in text for text in told())
    assert any("is `no_data` then" in text for text in told(APART))
