"""Pooled rows alongside others: of earlier releases, and of the tables of one sum."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from disclosure.errors import ReleaseError, TableError
from disclosure.release import CellTable, Release, RollUp, build_release
from disclosure.release.build import audit_releases
from disclosure.release.earlier import reconcile
from disclosure.release.files import release_to_plain
from tests.disclosure.release.support import ISSUED, policy, shown, table

CELLS = {"010": 0.3, "011": 0.28, "120": 0.2, "121": 0.03, "122": 0.025, "123": 0.02}
ROLL_UP = {"places": RollUp(tree="cells", levels=2)}
NORTH, SOUTH = (("region", "north"),), (("region", "south"),)


def release(*tables: CellTable, earlier: Release | None = None, **changes: Any) -> Release:
    before = [] if earlier is None else [replace(earlier, digest="ab" * 32)]
    rules = policy(**{"min_low": 0.05, "roll_up": ROLL_UP, **changes})
    return build_release(list(tables), rules, ISSUED, earlier=before)


def leaves(made: Release, index: int = 0) -> dict[str, tuple[str, ...]]:
    """Cells of each row."""
    one = made.tables[index]
    return {cell: one.members.get(cell, (cell,)) for cell in one.cells}


OTHER_RULES: list[dict[str, Any]] = [
    {"min_low": 0.015},
    {"roll_up": {"places": RollUp(tree="prefix", lengths=(1,))}},
    {"roll_up": {}},
]


@pytest.mark.parametrize("changes", OTHER_RULES)
def test_pools_never_have_the_number_of_others(changes: dict[str, Any]) -> None:
    """With another rule for pools the table stands as it did: a mix would be wrong, or tell more.

    12 was 121, 122 and 123; 121 and 12 by other rules would reveal the sum of 122 and 123.
    """
    first = release(table(CELLS))
    assert leaves(first)["12"] == ("121", "122", "123")
    again = release(table(CELLS), earlier=first, **changes)
    assert shown(again) == shown(first)
    assert leaves(again) == leaves(first)
    for mode in ("refuse", "revise"):
        with pytest.raises(ReleaseError, match="other rows than"):
            release(table(CELLS), earlier=first, on_change=mode, **changes)


def test_totals_are_of_the_rows_beside_them() -> None:
    first = release(table(CELLS), total=True)
    fewer = table({cell: share for cell, share in CELLS.items() if cell != "011"})
    assert shown(release(fewer, earlier=first, total=True)) == shown(first)
    without = release(table(CELLS))
    assert shown(release(fewer, earlier=without, total=True)) == shown(without)
    added = release(table(CELLS), earlier=without, total=True)
    assert shown(added) == {**shown(without), "(total)": 0.855}


def test_totals_never_take_a_values_number() -> None:
    first = release(table({**CELLS, "(total)": 0.1}), roll_up={})
    again = release(table(CELLS), earlier=first, roll_up={}, total=True)
    assert shown(again) == shown(first)


def test_kept_tables_keep_outlines_and_symbols() -> None:
    """Not the outline of other cells; and what was suppressed is so as it was before."""
    ring = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    cells = table({**CELLS, "130": 0.001}, error=0.02,
                  shapes={cell: {"type": "Polygon", "coordinates": [ring]} for cell in CELLS},
                  detected=table(CELLS | {"130": 0.0}).estimate > 0.0)  # fmt: skip
    first = release(cells, roll_up={})
    assert shown(first)["121"] == "u"
    symbols = {**policy().symbols, "low_interval": "x"}
    again = release(replace(cells, level=0.99), earlier=first, symbols=symbols)
    assert shown(again) == {cell: "x" if seen == "u" else seen
                            for cell, seen in shown(first).items()}  # fmt: skip
    pooled = release(table(CELLS, shapes=cells.shapes))
    other = release(table(CELLS, shapes=cells.shapes), earlier=pooled, min_low=0.015)
    assert other.tables[0].shapes.keys() == pooled.tables[0].shapes.keys() - {"12"}


def test_the_same_pools_stay_and_may_be_revised() -> None:
    first = release(table(CELLS))
    other = table({**CELLS, "010": 0.31, "121": 0.032})
    assert shown(release(other, earlier=first)) == shown(first)
    revised = release(other, earlier=first, on_change="revise")
    assert shown(revised) == {**shown(first), "010": 0.31, "12": 0.077}


def test_an_interval_never_has_the_level_of_another() -> None:
    first = release(table(CELLS))
    wider = table(CELLS, level=0.99)
    again = release(wider, earlier=first)
    assert again.tables[0].level == 0.95
    revised = release(wider, earlier=first, on_change="revise")
    assert revised.tables[0].level == 0.99
    fewer = table({cell: share for cell, share in CELLS.items() if cell != "011"}, level=0.99)
    with pytest.raises(ReleaseError, match="level"):
        release(fewer, earlier=first, on_change="revise")


def test_rows_that_were_everybody_stay_so() -> None:
    """A pool that is not told apart any more is left out; with its old number the sum is 1."""
    first = release(table({**CELLS, "120": 0.345}, complete=True))
    assert first.tables[0].complete
    rest = first.tables[0]
    fewer = replace(rest, cells=rest.cells[:1], kinds=rest.kinds[:1], symbols=rest.symbols[:1],
                    estimate=rest.estimate[:1], std_error=rest.std_error[:1], low=rest.low[:1],
                    high=rest.high[:1], members={}, complete=False)  # fmt: skip
    assert reconcile(fewer, first.tables[0], policy()).complete


def test_pools_of_one_sum_are_judged() -> None:
    """12 of all, less what is shown of north and south, would be 121 of the south: 0.002."""
    whole = table({"010": 0.5, "120": 0.3, "121": 0.0362, "122": 0.0648})
    north = table({"010": 0.5, "120": 0.3, "121": 0.0875, "122": 0.057}, strata=NORTH,
                  num_reports=4000)  # fmt: skip
    south = table({"010": 0.5, "120": 0.3, "121": 0.002, "122": 0.07}, strata=SOUTH,
                  num_reports=6000)  # fmt: skip
    made = release(whole, north, south)
    assert audit_releases([made]).findings == ()
    assert sum(one == "u" for index in range(3) for one in shown(made, index).values()) > 0
    first = release(north, south)
    later = release(whole, earlier=first)
    assert audit_releases([first, later]).findings == ()
    same = [table(CELLS), table(CELLS, strata=NORTH, num_reports=4000),
            table(CELLS, strata=SOUTH, num_reports=6000)]  # fmt: skip
    assert all("12" in shown(release(*same), index) for index in range(3))


def test_pools_of_rare_strings_do_not_name_them() -> None:
    """Only how many they are, and their sum; the next release of the same pool keeps it."""
    strings = {"big.example.org": 0.6, "alice.hospital.org": 0.04, "bob.hospital.org": 0.04}
    rules = {"places": RollUp(tree="domain")}
    rare = table(strings, listed=False, complete=False)
    first = release(rare, roll_up=rules)
    (one,) = first.tables
    assert one.cells == ("big.example.org", "*.hospital.org")
    assert (one.held, one.members) == ({"*.hospital.org": 2}, {})
    assert "alice" not in json.dumps(release_to_plain(first))
    assert shown(release(rare, earlier=first, roll_up=rules)) == shown(first)
    named = table({**strings, "alice.hospital.org": 0.09}, listed=False)
    assert shown(release(named, earlier=first, roll_up=rules)) == shown(first)


def test_pools_that_are_no_share_are_refused() -> None:
    """Each of its cells is not shown, and might be a share."""
    hidden = {"120": 0.9, "121": 0.8, "122": 0.7}
    wrong = table({"010": 0.4, **hidden}, detected=np.array([True, False, False, False]))
    wrong.check_shares()
    with pytest.raises(TableError, match=r"'12': estimate 2\.4 with .* is no share"):
        release(wrong)
