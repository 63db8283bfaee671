"""A location metric: sub-metrics by slot and level, what is charged, and files that must fail."""

from datetime import date

import pytest

from metric_design.review import check_metrics
from rappor_core.errors import MetricsFileError, ParameterError
from rappor_core.grid.box import NO_DATA, OTHER
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import Slot
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import place_groups

BASE = """
[metrics.density]
kind = "location"
description = "The usual place of each part of the day"
owner = "maps@example.org"
expires = 2027-06-30
grid = "quadkey"
box = [40.5, -74.3, 40.95, -73.65]
"""
MEMO = """
mode = "memo"
num_bits = 32
num_cohorts = 64
mechanism = "l-osue"
epsilon_infinity = 2.0
epsilon_one = 1.0
max_memoized_values = 3
"""
FILTER = "num_bits = 32\nnum_cohorts = 64\n"
LEVELS = "levels = [11, 13]\n"
SLOTS = 'slots = ["night 22-6", "work 9-17 weekdays"]\n'
SYMBOLS = """
mode = "memo"
encoding = "symbol"
num_symbols = 4
num_cohorts = 64
epsilon_infinity = 2.0
epsilon_one = 1.0
"""
WINDOW = 'mode = "window"\nwindow = 30\nmax_reports = 4\nencoding = "one_hot"\nepsilon = 1.0\n'
ONCE = 'mode = "once"\nnum_bits = 32\nnum_cohorts = 64\nepsilon = 4.0\n'


def read(*parts: str, budget: str = "") -> MetricsFile:
    return parse_metrics(budget + BASE + "".join(parts))


def test_what_a_device_can_spend_in_its_life() -> None:
    assert read(LEVELS, SLOTS, MEMO).lifetime_epsilon == pytest.approx(3 * 2.0, rel=1e-3)
    assert read(LEVELS, SYMBOLS).lifetime_epsilon == pytest.approx(4 * 2.0, rel=1e-3)
    capped = SYMBOLS + "max_memoized_values = 2\n"
    assert read(LEVELS, capped).lifetime_epsilon == pytest.approx(2 * 2.0, rel=1e-3)
    assert read(LEVELS, SLOTS, WINDOW).lifetime_epsilon == pytest.approx(4 * 1.0, rel=1e-3)
    assert read(LEVELS, ONCE).lifetime_epsilon == pytest.approx(4.0, rel=1e-3)
    with pytest.raises(MetricsFileError, match=r"budget = 5.*'density' alone"):
        read(LEVELS, MEMO, budget="budget = 5\n")


def test_one_hash_and_no_more_epsilon_by_default() -> None:
    for text in (MEMO, SYMBOLS, WINDOW, ONCE):
        params = read(LEVELS, text).metrics["density/day/13"].params
        assert params.num_hashes == 1
        asked = 4.0 if text is ONCE else 1.0
        assert asked - 2e-3 < params.epsilon_one <= asked
    two = read(LEVELS, ONCE, "num_hashes = 2\n").metrics["density/day/13"].params
    assert 4.0 - 2e-3 < two.epsilon_one <= 4.0


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((MEMO,), "levels is missing"),
        ((LEVELS, MEMO, "window = 3\n"), "window = 3"),
        ((LEVELS, WINDOW, "max_memoized_values = 3\n"), "max_memoized_values = 3"),
        ((LEVELS, WINDOW, "epsilon_one = 1\n"), "epsilon_one = 1"),
        ((LEVELS, MEMO, "epsilon = 2\n"), "epsilon = 2"),
        ((LEVELS, MEMO, "num_symbols = 2\n"), "num_symbols = 2"),
        ((LEVELS, MEMO, "rows = 2\n"), "rows"),
        ((LEVELS, MEMO, "mode2 = 2\n"), "unknown key mode2"),
        ((LEVELS, SYMBOLS, "num_bits = 8\n"), "num_bits = 8"),
        ((LEVELS, SYMBOLS, "mechanism = 'l-sue'\n"), "mechanism = 'l-sue'"),
        ((LEVELS, WINDOW.replace("one_hot", "symbol"), "num_cohorts = 8\n"), "encoding = 'symbol'"),
        ((LEVELS, MEMO, "slots = []\n"), "slots = "),
        ((LEVELS, MEMO, "slots = [3]\n"), "slot 3"),
        ((LEVELS, MEMO, "max_gap_minutes = 0\n"), "max_gap_minutes = 0"),
        (("levels = [24]\n", WINDOW), "at most 1,000,000"),
        (("levels = [18]\n", WINDOW), "bits at level 18"),
    ],
)
def test_bad_files_name_key_and_value(parts, why) -> None:
    with pytest.raises(MetricsFileError, match=why) as caught:
        read(*parts)
    assert "density" in str(caught.value)


def test_the_name_must_fit_slot_and_level() -> None:
    definition = read(LEVELS, MEMO).metrics["density/day/11"].to_dict()
    for name in ("density/day/13", "density", "density/night/11", "Density/day/11"):
        with pytest.raises(MetricsFileError, match="/day/11"):
            Metric.from_dict(definition | {"name": name})
    with pytest.raises(MetricsFileError, match=r"'here'.*reserved"):
        Metric.from_dict(definition | {"fallback": "here"})
    with pytest.raises(MetricsFileError, match=r"location = .* goes with kind = 'location'"):
        Metric.from_dict(definition | {"kind": "string"})


def test_slots() -> None:
    night, work = Slot.parse("night 22-6"), Slot.parse("work 9-17 weekdays")
    assert [hour for hour in range(24) if night.covers(hour, weekend=False)] == [
        0, 1, 2, 3, 4, 5, 22, 23,
    ]  # fmt: skip
    assert work.covers(9, weekend=False)
    assert not work.covers(17, weekend=False)
    assert not work.covers(9, weekend=True)
    assert [str(slot) for slot in (night, work)] == ["night 22-6", "work 9-17 weekdays"]
    for text in ("night", "night 6-6", "Night 1-2", "a 24-1", "a 1-25", "a 1-2 sundays", "a 1-0"):
        with pytest.raises(ParameterError, match="slot"):
            Slot.parse(text)


@pytest.mark.parametrize("hashes", ["0", "-1", "true", "2.0", '"2"'])
@pytest.mark.parametrize("mode", [ONCE, MEMO])
def test_an_epsilon_is_not_divided_among_no_hashes(hashes, mode) -> None:
    with pytest.raises(MetricsFileError, match=r"num_hashes = .* is not a whole"):
        read(LEVELS, mode, f"num_hashes = {hashes}\n")


def test_level_and_turn_divide_a_cohort() -> None:
    for mode, groups in (
        (MEMO, 2),
        (WINDOW.replace('encoding = "one_hot"', FILTER), 120),
        (ONCE, 4),
    ):
        assert place_groups(read(LEVELS, SLOTS, mode).declared[0]) == groups


def test_check_knows_narrow_crowds_and_missing_slots() -> None:
    def result(population: int, *keys: str) -> list[str]:
        found = check_metrics(read(*keys, MEMO), today=date(2026, 1, 1), population=population)
        return [finding.message for finding in found]

    assert any("about 500 devices in each of 64 cohorts at each of 2 levels" in text
               for text in result(64_000, LEVELS))  # fmt: skip
    assert not any("cohorts" in text for text in result(128_000, LEVELS))
    assert any(
        "slot 'work 9-17 weekdays' has no hours" in text for text in result(10**6, LEVELS, SLOTS)
    )
    assert not any("no hours" in text
                   for text in result(10**6, LEVELS, SLOTS, 'period = "week"\n'))  # fmt: skip


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("[11, 13]", "[28]", "error: but at most 1,000,000 can be mapped"),
        ("[11, 13]", "[13]\npairs = true", "error: but at most 40,000"),
        ("[11, 13]", "[11, 13]", "warning: cells for 100 devices"),
        ("[11, 13]", "[2]", "warning: one cell at level 2"),
        ("-74.3, 40.95, -73.65", "-73.65, 40.95, -74.3", "warning: are they swapped?"),
    ],
)
def test_check_knows_cells_no_map_can_hold(was, now, said) -> None:
    def found(text: str, devices: int) -> list[tuple[str, str]]:
        findings = check_metrics(parse_metrics(text), today=date(2026, 1, 1), population=devices)
        return [(one.level, one.message) for one in findings]

    plain, (level, _, words) = BASE + LEVELS + SYMBOLS, said.partition(": ")
    assert was in plain
    changed = found(plain.replace(was, now), 100)
    assert any(kind == level and words in message for kind, message in changed)
    assert not any(words in message for _, message in found(plain, 10**6))


@pytest.mark.parametrize(
    ("mode", "period", "days"),
    [(WINDOW, "week", 42), (ONCE, "month", 42), (WINDOW, "day", 7),
     (MEMO, "week", 7), (WINDOW + "accept_days = 3\n", "week", 3)],
)  # fmt: skip
def test_an_answer_that_is_due_once_in_many_weeks_is_waited_for(mode, period, days) -> None:
    (metric,) = read("levels = [11]\n", mode, f'period = "{period}"\n').declared
    assert metric.accept_days == days


def test_each_reserved_value_takes_a_cap_place() -> None:
    apart, two = 'no_data = "no_data"\n', "max_memoized_values = 2\n"
    filtered = MEMO.replace("max_memoized_values = 3\n", two)
    with pytest.raises(MetricsFileError, match=r"= 2 leaves no place .*use 3 or more"):
        read(LEVELS, filtered, apart)
    assert read(LEVELS, filtered).declared[0].max_memoized_values == 2
    symbols = SYMBOLS.replace("num_symbols = 4", "num_symbols = 2")
    assert read(LEVELS, symbols, apart).declared[0].max_memoized_values == 2
    with pytest.raises(MetricsFileError, match=r"= 2 leaves no place"):
        read(LEVELS, SYMBOLS, two, apart)


def test_an_undeclared_no_data_is_other() -> None:
    plain = read("levels = [11]\n", WINDOW).declared[0]
    apart = read("levels = [11]\n", WINDOW, 'no_data = "no_data"\n').declared[0]
    assert plain.value_bits(NO_DATA, 0) == plain.value_bits(OTHER, 0) == apart.value_bits(OTHER, 0)
    assert apart.value_bits(NO_DATA, 0) == 2 * apart.value_bits(OTHER, 0)
