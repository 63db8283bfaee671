"""What is left of a table without its parts, and numbers of earlier releases."""

from __future__ import annotations

from dataclasses import replace
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
    whole, north = table(WHOLE), of_region("north", NORTH, 4000)
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
