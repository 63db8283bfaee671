"""What is left of a table without its parts, and numbers of earlier releases."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from disclosure.release import CellTable, Release, audit_releases, build_release
from tests.disclosure.release.support import ISSUED, policy, shown, table

WHOLE: dict[str, float] = {"010": 0.5, "011": 0.3, "120": 0.14, "121": 0.06}
NORTH: dict[str, float] = {"010": 0.4, "011": 0.3, "120": 0.15, "121": 0.15}  # all of 121


def of_region(name: str, shares: dict[str, float], reports: int, **changes: Any) -> CellTable:
    return table(shares, strata=(("region", name),), num_reports=reports, **changes)


def again(one: Release) -> Release:
    return replace(one, digest="ab" * 32)


def test_remainders_are_judged_as_tables() -> None:
    """10,000 of 121 .06 less 4,000 in the north .15: nobody of the other 6,000 is of 121."""
    whole = table({**WHOLE, "010": 0.4})  # a tenth of the reports are of values without a name
    north = of_region("north", {**NORTH, "010": 0.3}, 4000)
    made = build_release([whole, north], policy(), ISSUED)
    assert [shown(made, index)["121"] for index in (0, 1)].count("u") == 1
    assert [list(shown(made, index).values()).count("u") for index in (0, 1)] in ([0, 1], [1, 0])
    for first, second in ((whole, north), (north, whole)):
        before = again(build_release([first], policy(), ISSUED))
        later = build_release([second], policy(), ISSUED, earlier=[before])
        assert shown(later)["121"] == "u"
        assert shown(before) == shown(build_release([first], policy(), ISSUED))


def test_remainders_of_tables_add_up() -> None:
    """All shares are known to add up to 1, so that another cell goes with it."""
    made = build_release(
        [table(WHOLE, complete=True), of_region("north", NORTH, 4000, complete=True)],
        policy(),
        ISSUED,
    )
    assert audit_releases([made]).findings == ()
    assert sum(one == "u" for index in (0, 1) for one in shown(made, index).values()) == 2


def test_parts_that_leave_enough_are_shown() -> None:
    whole = {"010": 0.5, "011": 0.3, "120": 0.2}
    made = build_release([table(whole), of_region("north", whole, 4000)], policy(), ISSUED)
    assert all("u" not in shown(made, index).values() for index in (0, 1))


def test_revised_numbers_are_still_known() -> None:
    """120 is hidden now; its earlier number, 121 of now and the sum 1 would give 130."""
    rules = policy(min_low=0.09, on_change="revise")
    shares = {"010": 0.5, "011": 0.3, "120": 0.099, "121": 0.097, "130": 0.004}
    first = build_release([table(shares, complete=True)], rules, ISSUED)
    assert [cell for cell, value in shown(first).items() if value == "u"] == ["121", "130"]
    swapped = table({**shares, "120": 0.097, "121": 0.099}, complete=True)
    second = build_release([swapped], rules, ISSUED, earlier=[again(first)])
    assert [cell for cell, value in shown(second).items() if value == "u"] == ["120", "121", "130"]
    third = build_release([swapped], rules, ISSUED, earlier=[again(first), again(second)])
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
    told = build_release(tables[:3], free, ISSUED).tables
    few = build_release(tables[3:], rules, ISSUED).tables
    (found,) = audit_releases([Release(rules, ISSUED, (*told, *few))]).findings[:1]
    assert not found.published
    assert (found.low, found.high) == (10, 10)


def test_everybody_who_shares_say_is_there_is_asked_about() -> None:
    """Of 10,060 reports 60 are in no named region; rounded to 100, numbers of reports leave nobody.
    All of them are of c, which no region names."""
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
