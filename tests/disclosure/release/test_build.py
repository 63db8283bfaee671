"""What a policy shows: thresholds, rounding, sealed windows, complements, earlier releases."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disclosure.errors import PolicyError, ReleaseError, TableError
from disclosure.release import CellTable, Release, audit_releases, build_release
from disclosure.release.tables import decimals, round_down, round_nearest, round_up
from tests.disclosure.release.support import (
    DAY,
    FOUR,
    ISSUED,
    as_published,
    policy,
    region,
    shown,
    table,
)


def day(number: int) -> date:
    return DAY + timedelta(days=number)


def reports(made: Release) -> list[int | None]:
    return [one.reports for one in made.tables]


def test_small_ends_are_suppressed_others_rounded_outwards() -> None:
    made = build_release([table({**FOUR, "a": 0.4, "e": 0.015, "f": 0.001})], policy(), ISSUED)
    assert shown(made) == {"a": 0.4, "b": 0.3, "c": 0.15, "d": 0.05, "e": "u", "f": "u"}
    one = made.tables[0]
    assert one.low.tolist()[:4] == [0.392, 0.292, 0.142, 0.042]
    assert one.high.tolist()[:4] == [0.408, 0.308, 0.158, 0.058]
    assert np.isnan(one.high[4:]).all()
    assert np.isnan(one.std_error[4:]).all()


def test_undetected_values_are_suppressed() -> None:
    given_ = replace(table(FOUR), detected=np.array([True, True, False, True]))
    assert shown(build_release([given_], policy(), ISSUED))["c"] == "u"


def test_a_threshold_is_met_after_rounding_only() -> None:
    """The lower end is 0.0105: 0.01 in steps of 0.01, but 0.007 in steps of 0.007."""
    given_ = table({"a": 0.5, "b": 0.0183}, error=0.004)
    assert float(given_.low[1]) > 0.01
    assert shown(build_release([given_], policy(rounding=Decimal("0.01")), ISSUED))["b"] == 0.02
    assert shown(build_release([given_], policy(rounding=Decimal("0.007")), ISSUED))["b"] == "u"


def test_tables_of_few_reports_are_withheld() -> None:
    made = build_release([table(FOUR, num_reports=999)], policy(), ISSUED)
    (one,) = made.tables
    assert (one.reports, one.cells, one.withheld) == (None, (), "c")


@pytest.mark.parametrize("days", [0, 6])
def test_windows_still_open_for_reports_are_refused(days: int) -> None:
    with pytest.raises(PolicyError, match=r"not sealed on 2026-11-0\d"):
        build_release([table(FOUR)], policy(), DAY + timedelta(days=days))
    build_release([table(FOUR)], policy(), DAY + timedelta(days=7))
    build_release([table(FOUR)], policy(sealed_after_days=days), DAY + timedelta(days=days))


def test_strata_and_days_outside_the_policy_are_refused() -> None:
    with pytest.raises(PolicyError, match="does not publish the stratum 'version'"):
        build_release([table(FOUR, strata=(("version", "2"),))], policy(), ISSUED)
    first, last = date(2026, 11, 3), date(2026, 11, 1)
    for bound, days in (
        ({"first_day": first}, "days from 2026-11-03 only"),
        ({"last_day": last}, "days to 2026-11-01 only"),
        ({"first_day": last, "last_day": last}, "days from 2026-11-01 to 2026-11-01 only"),
    ):
        with pytest.raises(PolicyError, match=f"the policy publishes {days}"):
            build_release([table(FOUR)], policy(**bound), ISSUED)
    with pytest.raises(ReleaseError, match="given twice"):
        build_release([table(FOUR), table(FOUR)], policy(), ISSUED)
    with pytest.raises(PolicyError, match="names 'region' twice"):
        policy(strata=("region", "region"))
    with pytest.raises(PolicyError, match="reports_rounding = 5000 is above min_reports = 1000"):
        policy(reports_rounding=5000)


@pytest.mark.parametrize(
    ("values", "result"),
    [
        (["north", "North"], "differ by case, blanks"),
        (["north ", "south"], "has blanks at an end"),
        (["I\u0302le", "south"], "composed otherwise"),
        (["new\u00a0york", "new york"], "differ by case, blanks"),
        (["no\u200brth", "north"], "differ by case, blanks"),
        (["\uff11", "1"], "differ by case, blanks"),
    ],
)
def test_strata_that_only_spelling_tells_apart_are_refused(values: list[str], result: str) -> None:
    """Their windows would be two series, which nobody compares; earlier releases count."""
    tables = [table(FOUR, strata=(("region", value),)) for value in values]
    with pytest.raises(PolicyError, match=result):
        build_release(tables, policy(), ISSUED)
    if result == "differ by case, blanks":
        first = as_published(build_release(tables[:1], policy(), ISSUED))
        with pytest.raises(PolicyError, match=result):
            build_release(tables[1:], policy(), ISSUED, earlier=[first])


def test_a_rare_string_is_not_even_named() -> None:
    made = build_release([table({**FOUR, "rare": 0.011}, listed=False)], policy(), ISSUED)
    assert shown(made) == FOUR


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        (
            {"estimate": np.array([5.5, 0.1])},
            r"'a': estimate 5\.5 lies outside its interval, 0\.29",
        ),
        ({"unbiased": np.array([0.3, 1e300])}, r"'b': unbiased estimate 1e\+300 lies outside"),
        ({"std_error": np.array([0.0, 0.1])}, "'a': standard error 0 is not above 0"),
        ({"num_reports": 10**30}, f"{10**30} reports are not in 0 to {10**15}"),
        ({"level": 1.0}, "level = 1.0 must lie in"),
        ({"estimate": np.array([np.nan, 0.1])}, "not finite"),
        ({"cells": ["a", "a"]}, "appears twice"),
        ({"low": np.array([0.6, 0.0])}, r"the interval 0\.6 to 0\.31 has its ends swapped"),
    ],
)
def test_numbers_of_no_decoding_are_refused(changes: dict[str, Any], result: str) -> None:
    cut = {"low": np.array([0.29, 0.0]), "high": np.array([0.31, 0.2])}
    good = table({"a": 0.3, "b": -0.01}, **cut)
    with pytest.raises(TableError, match=result):
        replace(good, **changes)


def test_honest_extremes_are_tables() -> None:
    """A share above 1 by chance, far in few reports; without noise, one of nobody, exactly."""
    ends = {"low": np.array([0.97, 0.0]), "high": np.array([1.0, 0.0])}
    found = table({"a": 1.02, "b": 0.0}, std_error=np.array([0.02, 0.0]), **ends)
    found.check_shares()
    few = table({"a": 1.0}, error=1.42, unbiased=np.array([3.2]),
                low=np.array([0.2]), high=np.array([1.0]))  # fmt: skip
    replace(few, detected=np.array([True])).check_shares()


@pytest.mark.parametrize(
    ("estimate", "error", "detected"),
    [(5.5, 0.004, True), (1e300, 1e300, True), (1.3, 0.004, True),
     (-3.0, 0.004, False), (5.5, 0.004, False)],
)  # fmt: skip
def test_what_is_no_share_is_refused(estimate: float, error: float, detected: bool) -> None:
    ends = {"low": np.array([min(estimate, 0.9)]), "high": np.array([1e301])}
    wrong = table({"a": estimate}, error, detected=np.array([detected]), **ends)
    with pytest.raises(TableError, match=r"'a': estimate .* is no share of the reports"):
        wrong.check_shares()


@given(
    st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=20),
    st.sampled_from(["0.001", "0.005", "0.01", "0.003", "0.0000001", "0.5", "0.25"]),
)
def test_rounding_widens_never_narrows_and_keeps_multiples(values: list[float], text: str) -> None:
    step, exact = Decimal(text), np.array(values)
    low, high = round_down(exact, step), round_up(exact, step)
    assert (low <= exact).all()
    assert (high >= exact).all()
    assert (high - low <= float(step) * (1 + 1e-9)).all()
    assert round_down(low, step).tolist() == low.tolist()
    assert round_up(low, step).tolist() == low.tolist()
    near = round_nearest(exact, step)
    assert (np.abs(near - exact) <= float(step) / 2 * (1 + 1e-9)).all()


def test_sole_suppressed_cells_take_another_with_them() -> None:
    """Shares of a map add up to 1; c, alone, would be 1 less the others."""
    cells = {"a": 0.6, "b": 0.35, "c": 0.001, "d": 0.05}
    known = build_release([table(cells, complete=True)], policy(), ISSUED)
    assert shown(known) == {"a": 0.6, "b": 0.35, "c": "u", "d": "u"}
    nearly = build_release([table(cells)], policy(), ISSUED)
    assert shown(nearly) == {**cells, "c": "u", "d": "u"}  # a report is of one value
    unknown = build_release([table({**cells, "a": 0.5})], policy(), ISSUED)
    assert shown(unknown) == {**cells, "a": 0.5, "c": "u"}
    total = build_release([table(cells)], policy(total=True), ISSUED)
    assert shown(total) == {"a": 0.6, "b": 0.35, "c": "u", "d": "u", "(total)": 1.001}


def test_large_suppressed_cells_hide_each_other() -> None:
    """Together they are .017, or .003, where .01 is what nobody may know them by."""
    cells = {"a": 0.6, "b": 0.383, "c": 0.001, "d": 0.016}
    hidden = {"c": "u", "d": "u"}
    made = build_release([table(cells, complete=True)], policy(), ISSUED)
    assert shown(made) == {**cells, **hidden}
    cells |= {"b": 0.397, "d": 0.002}
    made = build_release([table(cells, complete=True)], policy(), ISSUED)
    assert shown(made) == {**cells, "b": "u", **hidden}


@pytest.mark.parametrize(("rounding", "withheld"), [(1, 2), (100, 2), (1000, 1)])
def test_rounded_reports_hide_a_withheld_region(rounding: int, withheld: int) -> None:
    """11 regions of 1,500 and one of 500, and all of them; in thousands it may be anything."""
    parts = [region(f"r{number:02}", 1500) for number in range(11)] + [region("r11", 500)]
    rules = policy(reports_rounding=rounding)
    made = build_release([table(FOUR, num_reports=17_000), *parts], rules, ISSUED)
    assert reports(made).count(None) == withheld
    assert made.tables[-1].withheld == "c"
    assert audit_releases([made]).findings == ()


@pytest.mark.parametrize("order", [1, -1])
def test_windows_of_parts_hide_the_rest(order: int) -> None:
    """10,000 reports of eight days less 9,900 of the north in two halves are 100 others."""
    whole = table(FOUR, last_day=day(7))
    halves = [region("n", 5000, last_day=day(3)),
              region("n", 4900, first_day=day(4), last_day=day(7))]  # fmt: skip
    made = build_release([whole, *halves][::order], policy(), ISSUED)
    assert reports(made)[::order] == [10_000, 5000, None]
    first = as_published(build_release([whole], policy(), ISSUED))
    assert reports(build_release(halves, policy(), ISSUED, earlier=[first])) == [5000, None]


def test_releases_tell_nothing_of_the_day_between() -> None:
    week = table(FOUR, last_day=day(6), num_reports=70_000)
    first = as_published(build_release([week], policy(), ISSUED))
    longer = table(FOUR, last_day=day(7), num_reports=70_500)
    made = build_release([longer], policy(), ISSUED, earlier=[first])
    assert made.tables[0].withheld == "c"
    enough = replace(longer, num_reports=71_000)
    assert build_release([enough], policy(), ISSUED, earlier=[first]).tables[0].reports == 71_000
    next_week = table(FOUR, first_day=day(7), last_day=day(13))
    made = build_release([next_week], policy(), ISSUED, earlier=[first])
    assert made.tables[0].reports == 10_000
    assert made.earlier == ("ab" * 32,)


def test_districts_are_judged_within_their_region() -> None:
    """300 reports of d2 are the region less d1: the policy says where districts lie."""
    within = {"district": {"region": {"d1": "n", "d2": "n", "d3": "s"}}}
    rules = policy(strata=("region", "district"), within=within)
    tables = [region("n", 4300), region("s", 5700)] + [
        table(FOUR, strata=(("district", name),), num_reports=size)
        for name, size in (("d1", 4000), ("d2", 300), ("d3", 5700))
    ]
    made = build_release([table(FOUR), *tables], rules, ISSUED)
    assert reports(made) == [10_000, 4300, 5700, None, None, 5700]
    with pytest.raises(PolicyError, match="does not say in which region 'd4' lies"):
        build_release([table(FOUR, strata=(("district", "d4"),))], rules, ISSUED)
    both = table(FOUR, strata=(("district", "d3"), ("region", "n")))
    with pytest.raises(PolicyError, match="'d3' lies in region 's', and not in 'n'"):
        build_release([both], rules, ISSUED)


def test_a_shown_cell_stays_as_it_was() -> None:
    first = as_published(build_release([table(FOUR)], policy(rounding=Decimal("0.01")), ISSUED))
    again = table({"a": 0.502, "b": 0.299, "c": 0.15, "d": 0.012, "new": 0.1})
    made = build_release([again], policy(), ISSUED, earlier=[first])
    assert shown(made) == {**FOUR, "new": 0.1}
    assert made.tables[0].low.tolist()[:4] == first.tables[0].low.tolist()
    with pytest.raises(ReleaseError, match=r"'a' was published with another estimate: 0\.5, now"):
        build_release([again], policy(on_change="refuse"), ISSUED, earlier=[first])
    revised = build_release([again], policy(on_change="revise"), ISSUED, earlier=[first])
    assert shown(revised)["a"] == 0.502
    assert shown(revised)["d"] == "u"


def test_unnamed_strings_are_not_found_by_subtraction() -> None:
    """`x` is rare in the north, which does not name it; all of it less the south's would tell."""
    whole = table({"a": 0.5, "x": 0.1}, listed=False)
    north = region("north", 4000, {"a": 0.6}, listed=False)
    south = region("south", 6000, {"a": 0.5, "x": 0.166}, listed=False)
    made = build_release([whole, north, south], policy(), ISSUED)
    assert [one.symbols for one in made.tables] == [("", ""), ("",), ("", "u")]


def test_later_wholes_do_not_undo_earlier_parts() -> None:
    north = region("north", 4000, {"a": 0.6, "c": 0.001})
    south = region("south", 6000, {"a": 0.5, "c": 0.166})
    first = as_published(build_release([north, south], policy(), ISSUED))
    whole = table({"a": 0.5, "c": 0.1})
    made = build_release([whole], policy(), ISSUED, earlier=[first])
    assert shown(made) == {"a": 0.5, "c": "u"}


def test_what_earlier_releases_give_away_is_said() -> None:
    """All of the map but `c` was shown; a complete map reveals `c`, whatever is hidden now."""
    first = as_published(build_release([table({"a": 0.6, "c": 0.001})], policy(), ISSUED))
    again = table({"a": 0.6, "c": 0.001}, complete=True)
    made = build_release([again], policy(), ISSUED, earlier=[first])
    assert "1 suppressed numbers can be inferred" in made.notes[-1]


def test_rounded_numbers_have_no_exact_bits() -> None:
    step = Decimal("0.003")
    exact = np.linspace(0, 1, 1001)
    for number in round_nearest(exact, step).tolist():
        multiple = round(number / 0.003) * step
        assert number == float(multiple)
    assert decimals(step) == 3
    assert decimals(Decimal("0.5")) == 1


WHOLE: dict[str, float] = {"010": 0.5, "011": 0.3, "120": 0.14, "121": 0.06}
NORTH: dict[str, float] = {"010": 0.4, "011": 0.3, "120": 0.15, "121": 0.15}  # all of 121


def test_remainders_are_judged_as_tables() -> None:
    """10,000 of 121 .06 less 4,000 in the north .15: nobody of the other 6,000 is of 121."""
    whole = table({**WHOLE, "010": 0.4})  # a tenth of the reports are of values without a name
    north = region("north", 4000, {**NORTH, "010": 0.3})
    made = build_release([whole, north], policy(), ISSUED)
    assert [shown(made, index)["121"] for index in (0, 1)].count("u") == 1
    assert [list(shown(made, index).values()).count("u") for index in (0, 1)] in ([0, 1], [1, 0])
    for first, second in ((whole, north), (north, whole)):
        before = as_published(build_release([first], policy(), ISSUED))
        later = build_release([second], policy(), ISSUED, earlier=[before])
        assert shown(later)["121"] == "u"
        assert shown(before) == shown(build_release([first], policy(), ISSUED))


def test_parts_that_leave_enough_are_shown() -> None:
    whole = {"010": 0.5, "011": 0.3, "120": 0.2}
    made = build_release([table(whole), region("north", 4000, whole)], policy(), ISSUED)
    assert all("u" not in shown(made, index).values() for index in (0, 1))


def test_revised_numbers_are_still_known() -> None:
    """120 is hidden now; its earlier number, 121 of now and the sum 1 would give 130."""
    rules = policy(min_low=0.09, on_change="revise")
    shares = {"010": 0.5, "011": 0.3, "120": 0.099, "121": 0.097, "130": 0.004}
    first = build_release([table(shares, complete=True)], rules, ISSUED)
    assert [cell for cell, value in shown(first).items() if value == "u"] == ["121", "130"]
    swapped = table({**shares, "120": 0.097, "121": 0.099}, complete=True)
    second = build_release([swapped], rules, ISSUED, earlier=[as_published(first)])
    assert [cell for cell, value in shown(second).items() if value == "u"] == ["120", "121", "130"]
    third = build_release(
        [swapped], rules, ISSUED, earlier=[as_published(first), as_published(second)]
    )
    assert shown(third) == shown(second)


def counted(held: dict[str, int], **strata: str) -> CellTable:
    """A table of so many persons of each value."""
    size = sum(held.values())
    shares = {value: count / size for value, count in held.items()}
    return table(shares, 0.002, strata=tuple(sorted(strata.items())), num_reports=size)


def test_a_whole_less_parts_by_several_strata_is_judged() -> None:
    """21,510 less 17,500 by night less 4,000 of the south by day: 10 of the north and the west."""
    tables = [
        counted({"a": 10_508, "b": 7_002, "c": 4_000}),
        counted({"a": 8_500, "b": 5_700, "c": 3_300}, slot="night"),
        counted({"a": 2_000, "b": 1_300, "c": 700}, slot="day", region="south"),
        counted({"a": 200, "b": 100, "c": 100}, region="north"),
        counted({"a": 100, "b": 100, "c": 100}, region="west"),
    ]
    rules = policy(rounding=Decimal("0.01"), min_low=0.05)
    made = build_release(tables, rules, ISSUED)
    assert [one.reports is None for one in made.tables].count(True) > 2  # two have few reports
    assert audit_releases([made]).findings == ()
    free = replace(rules, min_reports=1, min_low=1e-9)
    result = build_release(tables[:3], free, ISSUED).tables
    few = build_release(tables[3:], rules, ISSUED).tables
    (found,) = audit_releases([Release(rules, ISSUED, (*result, *few))]).findings[:1]
    assert not found.published
    assert (found.low, found.high) == (10, 10)


def test_everybody_who_shares_say_is_there_is_asked_about() -> None:
    """60 of 10,060 reports are in no named region, all of c; rounded, numbers leave nobody."""
    whole = {"a": 6_000, "b": 4_000, "c": 60}
    tables = [
        counted(whole),
        counted({"a": 4_000, "b": 1_000}, region="north"),
        counted({"a": 2_000, "b": 3_000}, region="south"),
    ]
    rules = policy(reports_rounding=100, rounding=Decimal("0.0001"), min_low=0.001)
    made = build_release(tables, rules, ISSUED)
    assert not any("contradict" in note for note in made.notes)


def test_errors_do_not_tell_the_reports_that_are_rounded() -> None:
    rules = policy(reports_rounding=1_000, rounding=Decimal("0.00001"))
    errors = [
        build_release([table({"a": 0.5, "b": 0.3}, 0.5 / size**0.5, num_reports=size)],
                      rules, ISSUED).tables[0]
        for size in (2_000, 2_400, 2_999)
    ]  # fmt: skip
    assert [one.reports for one in errors] == [2_000] * 3
    assert len({tuple(one.std_error) for one in errors}) == 1
    assert len({(*one.low, *one.high) for one in errors}) == 1
