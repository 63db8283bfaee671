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
from disclosure.release import CellTable, Release, build_release
from disclosure.release.build import audit_releases
from disclosure.release.tables import decimals, round_down, round_nearest, round_up
from tests.disclosure.release.support import DAY, ISSUED, policy, shown, table

FOUR = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}


def as_published(made: Release) -> Release:
    """As it is read back: with the digest of a manifest."""
    return replace(made, digest="ab" * 32)


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


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["north", "North"], "differ by case, blanks"),
        (["north ", "south"], "has blanks at an end"),
        (["I\u0302le", "south"], "composed otherwise"),
        (["new\u00a0york", "new york"], "differ by case, blanks"),
        (["no\u200brth", "north"], "differ by case, blanks"),
        (["\uff11", "1"], "differ by case, blanks"),
    ],
)
def test_strata_that_only_spelling_tells_apart_are_refused(values: list[str], told: str) -> None:
    """Their windows would be two series, which nobody compares; earlier releases count."""
    tables = [table(FOUR, strata=(("region", value),)) for value in values]
    with pytest.raises(PolicyError, match=told):
        build_release(tables, policy(), ISSUED)
    if told == "differ by case, blanks":
        first = as_published(build_release(tables[:1], policy(), ISSUED))
        with pytest.raises(PolicyError, match=told):
            build_release(tables[1:], policy(), ISSUED, earlier=[first])


def test_policies_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(PolicyError, match="names 'region' twice"):
        policy(strata=("region", "region"))
    with pytest.raises(PolicyError, match="reports_rounding = 5000 is above min_reports = 1000"):
        policy(reports_rounding=5000)


def test_a_rare_string_is_not_even_named() -> None:
    made = build_release([table({**FOUR, "rare": 0.011}, listed=False)], policy(), ISSUED)
    assert shown(made) == FOUR


def test_an_empty_decoding_makes_an_empty_table() -> None:
    made = build_release([table({})], policy(total=True), ISSUED)
    assert made.tables[0].cells == ()
    assert made.tables[0].reports == 10_000
    assert build_release([], policy(), ISSUED).tables == ()


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(TableError, match="not finite"):
        table({"a": float("nan")})
    with pytest.raises(TableError, match="appears twice"):
        replace(table({"a": 0.1, "b": 0.2}), cells=["a", "a"])
    with pytest.raises(TableError, match="upside down"):
        replace(table({"a": 0.1}), low=np.array([0.9]))
    with pytest.raises(TableError, match=r"the interval 0\.6 to 0\.5 is upside down"):
        replace(table({"a": 0.5}), low=np.array([0.6]), high=np.array([0.5]))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"estimate": np.array([5.5, 0.1])},
            r"'a': estimate 5\.5 lies outside its interval, 0\.29",
        ),
        ({"unbiased": np.array([0.3, 1e300])}, r"'b': unbiased estimate 1e\+300 lies outside"),
        ({"std_error": np.array([0.0, 0.1])}, "'a': standard error 0 is not above 0"),
        ({"num_reports": 10**30}, f"{10**30} reports, where 0 to {10**15} can be"),
        ({"level": 1.0}, "level = 1.0 must lie in"),
    ],
)
def test_numbers_of_no_decoding_are_refused(changes: dict[str, Any], told: str) -> None:
    """`TableError` names the cell: ends may be cut at 0 and 1, where the estimate is not."""
    cut = {"low": np.array([0.29, 0.0]), "high": np.array([0.31, 0.2])}
    good = table({"a": 0.3, "b": -0.01}, **cut)
    with pytest.raises(TableError, match=told):
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
    """Where the interval goes along with the estimate; also what is hidden, as it is added up."""
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


def test_whole_tables_do_not_reveal_cells_of_parts() -> None:
    """`c` of the north is all of it less the south's: one of the two is hidden with it."""
    whole = table({"a": 0.5, "b": 0.3, "c": 0.1})
    north = table({"a": 0.6, "b": 0.299, "c": 0.001}, strata=(("region", "north"),),
                  num_reports=4000)  # fmt: skip
    south = table({"a": 0.43, "b": 0.30, "c": 0.166}, strata=(("region", "south"),),
                  num_reports=6000)  # fmt: skip
    made = build_release([whole, north, south], policy(), ISSUED)
    hidden = [
        (one.strata, cell)
        for one in made.tables
        for cell, flag in zip(one.cells, one.is_shown, strict=True)
        if not flag
    ]
    assert sorted(hidden) == [((("region", "north"),), "c"), ((("region", "south"),), "c")]
    alone = build_release([north, south], policy(), ISSUED)
    assert [one.symbols for one in alone.tables] == [("", "", "u"), ("", "", "")]


def test_small_parts_are_not_found_by_subtraction() -> None:
    """300 reports of the east: the smallest other part is withheld as well."""
    parts = [("north", 4000), ("south", 5700), ("east", 300)]
    tables = [table(FOUR)] + [
        table(FOUR, strata=(("region", name),), num_reports=count) for name, count in parts
    ]
    made = build_release(tables, policy(), ISSUED)
    assert [one.reports for one in made.tables] == [10_000, None, 5700, None]
    missing = build_release(tables[:3], policy(), ISSUED)
    assert [one.reports for one in missing.tables] == [10_000, None, 5700]


def region(name: str, reports: int, shares: dict[str, float] = FOUR, **changes: Any) -> CellTable:
    return table(shares, strata=(("region", name),), num_reports=reports, **changes)


def reports(made: Release) -> list[int | None]:
    return [one.reports for one in made.tables]


@pytest.mark.parametrize(("rounding", "withheld"), [(1, 2), (100, 2), (1000, 1)])
def test_rounded_reports_hide_a_withheld_region(rounding: int, withheld: int) -> None:
    """11 regions of 1,500 and one of 500, beside all of them; in thousands it may be anything."""
    parts = [region(f"r{number:02}", 1500) for number in range(11)] + [region("r11", 500)]
    rules = policy(reports_rounding=rounding)
    made = build_release([table(FOUR, num_reports=17_000), *parts], rules, ISSUED)
    assert reports(made).count(None) == withheld
    assert made.tables[-1].withheld == "c"
    assert audit_releases([made]).findings == ()


@pytest.mark.parametrize("order", [1, -1])
def test_windows_of_parts_hide_the_rest(order: int) -> None:
    """10,000 reports of eight days less 9,900 of the north in two halves are 100 others."""
    whole = table(FOUR, last_day=DAY + timedelta(days=7))
    halves = [
        region("n", 5000, last_day=DAY + timedelta(days=3)),
        region("n", 4900, first_day=DAY + timedelta(days=4), last_day=DAY + timedelta(days=7)),
    ]
    made = build_release([whole, *halves][::order], policy(), ISSUED)
    assert reports(made)[::order] == [10_000, 5000, None]
    first = as_published(build_release([whole], policy(), ISSUED))
    assert reports(build_release(halves, policy(), ISSUED, earlier=[first])) == [5000, None]


def test_releases_tell_nothing_of_the_day_between() -> None:
    week = table(FOUR, last_day=DAY + timedelta(days=6), num_reports=70_000)
    first = as_published(build_release([week], policy(), ISSUED))
    longer = table(FOUR, last_day=DAY + timedelta(days=7), num_reports=70_500)
    made = build_release([longer], policy(), ISSUED, earlier=[first])
    assert made.tables[0].withheld == "c"
    enough = replace(longer, num_reports=71_000)
    assert build_release([enough], policy(), ISSUED, earlier=[first]).tables[0].reports == 71_000
    next_week = table(FOUR, first_day=DAY + timedelta(days=7), last_day=DAY + timedelta(days=13))
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
    """Another rounding, or another decoding, would narrow it down."""
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


def test_suppressed_cells_stay_and_gone_ones_are_kept() -> None:
    four = {**FOUR, "a": 0.4}
    first = as_published(build_release([table({**four, "e": 0.012})], policy(), ISSUED))
    again = table({"a": 0.4, "b": 0.3, "c": 0.15, "e": 0.3})
    made = build_release([again], policy(), ISSUED, earlier=[first])
    assert shown(made) == {**four, "e": "u"}


def test_unnamed_strings_are_not_found_by_subtraction() -> None:
    """`x` is rare in the north, which does not name it; all of it less the south's would tell."""
    whole = table({"a": 0.5, "x": 0.1}, listed=False)
    north = table({"a": 0.6}, strata=(("region", "north"),), num_reports=4000, listed=False)
    south = table({"a": 0.5, "x": 0.166}, strata=(("region", "south"),), num_reports=6000,
                  listed=False)  # fmt: skip
    made = build_release([whole, north, south], policy(), ISSUED)
    assert [one.symbols for one in made.tables] == [("", ""), ("",), ("", "u")]


def test_later_wholes_do_not_undo_earlier_parts() -> None:
    north = table({"a": 0.6, "c": 0.001}, strata=(("region", "north"),), num_reports=4000)
    south = table({"a": 0.5, "c": 0.166}, strata=(("region", "south"),), num_reports=6000)
    first = as_published(build_release([north, south], policy(), ISSUED))
    whole = table({"a": 0.5, "c": 0.1})
    made = build_release([whole], policy(), ISSUED, earlier=[first])
    assert shown(made) == {"a": 0.5, "c": "u"}


def test_what_earlier_releases_give_away_is_said() -> None:
    """All but `c` of the map was shown; that the map is whole tells `c`, whatever is hidden now."""
    first = as_published(build_release([table({"a": 0.6, "c": 0.001})], policy(), ISSUED))
    again = table({"a": 0.6, "c": 0.001}, complete=True)
    made = build_release([again], policy(), ISSUED, earlier=[first])
    assert "1 numbers that are not shown can be inferred" in made.notes[-1]


def test_reports_are_rounded_down() -> None:
    made = build_release([table(FOUR, num_reports=1999)], policy(reports_rounding=500), ISSUED)
    assert made.tables[0].reports == 1500


def test_strata_of_two_splits_are_not_recovered() -> None:
    """A whole alongside parts by region and slot, nothing in between: 400 of the south by night."""
    shares = {"a": 0.2, "b": 0.1, "c": 0.7}
    sizes = {("n", "day"): 4000, ("n", "night"): 2600, ("s", "day"): 3000, ("s", "night"): 400}
    parts = [
        table(shares, strata=(("region", one), ("slot", other)), num_reports=size)
        for (one, other), size in sizes.items()
    ]
    made = build_release([table(shares), *parts], policy(), ISSUED)
    assert reports(made) == [10_000, 4000, None, 3000, None]


def test_rounded_numbers_have_no_exact_bits() -> None:
    """Each is the float nearest to the decimal, as a reader of the text would make it."""
    step = Decimal("0.003")
    exact = np.linspace(0, 1, 1001)
    for number in round_nearest(exact, step).tolist():
        multiple = round(number / 0.003) * step
        assert number == float(multiple)
    assert decimals(step) == 3
    assert decimals(Decimal("0.5")) == 1
