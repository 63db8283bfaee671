"""Pooled rows alongside others: of earlier releases, and of the tables of one sum."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError, ReleaseError, TableError
from disclosure.release import CellTable, Release, RollUp, build_release
from disclosure.release.build import audit_releases
from disclosure.release.earlier import reconcile
from disclosure.release.files import release_to_plain
from disclosure.release.pooling import Pool, roll_up, sum_error, tree_of
from disclosure.typing import Floats
from tests.disclosure.release.support import ISSUED, as_published, policy, region, shown, table

CELLS = {"010": 0.3, "011": 0.28, "120": 0.2, "121": 0.03, "122": 0.025, "123": 0.02}
ROLL_UP = {"places": RollUp(tree="cells", levels=2)}


def release(*tables: CellTable, earlier: Release | None = None, **changes: Any) -> Release:
    before = [] if earlier is None else [as_published(earlier)]
    rules = policy(**{"min_low": 0.05, "roll_up": ROLL_UP, **changes})
    return build_release(list(tables), rules, ISSUED, earlier=before)


def leaves(made: Release, index: int = 0) -> dict[str, tuple[str, ...]]:
    """Cells of each row."""
    one = made.tables[index]
    return {cell: one.members.get(cell, (cell,)) for cell in one.cells}


@pytest.mark.parametrize(
    "changes",
    [
        {"min_low": 0.015},
        {"roll_up": {"places": RollUp(tree="prefix", lengths=(1,))}},
        {"roll_up": {}},
    ],
)
def test_pools_never_have_the_number_of_others(changes: dict[str, Any]) -> None:
    """12 was 121, 122 and 123; 121 and 12 by other rules would reveal the sum of 122 and 123."""
    first = release(table(CELLS))
    assert leaves(first)["12"] == ("121", "122", "123")
    again = release(table(CELLS), earlier=first, **changes)
    assert shown(again) == shown(first)
    assert leaves(again) == leaves(first)
    for mode in ("refuse", "revise"):
        with pytest.raises(ReleaseError, match="different rows"):
            release(table(CELLS), earlier=first, on_change=mode, **changes)


def test_totals_are_of_the_rows_beside_them() -> None:
    first = release(table(CELLS), total=True)
    fewer = table({cell: share for cell, share in CELLS.items() if cell != "011"})
    assert shown(release(fewer, earlier=first, total=True)) == shown(first)
    without = release(table(CELLS))
    assert shown(release(fewer, earlier=without, total=True)) == shown(without)
    added = release(table(CELLS), earlier=without, total=True)
    assert shown(added) == {**shown(without), "(total)": 0.855}


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
    north = region("north", 4000, {"010": 0.5, "120": 0.3, "121": 0.0875, "122": 0.057})
    south = region("south", 6000, {"010": 0.5, "120": 0.3, "121": 0.002, "122": 0.07})
    made = release(whole, north, south)
    assert audit_releases([made]).findings == ()
    assert sum(one == "u" for index in range(3) for one in shown(made, index).values()) > 0
    first = release(north, south)
    later = release(whole, earlier=first)
    assert audit_releases([first, later]).findings == ()
    same = [table(CELLS), region("north", 4000, CELLS), region("south", 6000, CELLS)]
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
    hidden = {"120": 0.9, "121": 0.8, "122": 0.7}
    wrong = table({"010": 0.4, **hidden}, detected=np.array([True, False, False, False]))
    wrong.check_shares()
    with pytest.raises(TableError, match=r"'12': estimate 2\.4 with .* is no share"):
        release(wrong)


def cell_tree(cells: list[str], levels: int) -> Hierarchy:
    return tree_of(cells, RollUp("cells", levels=levels))


def prefix_tree(values: list[str], *lengths: int) -> Hierarchy:
    return tree_of(values, RollUp("prefix", lengths=lengths))


def labels(pools: list[Pool]) -> list[str]:
    return [pool.label for pool in pools]


def rolled(
    values: list[str], estimate: Floats, tree: Hierarchy, ratio: float, correlation: float = 0.0
) -> list[Pool]:
    """Pools of estimates with errors of 1 that reach a ratio; so do values alone."""
    nodes = sum(len({path[i] for path in tree.paths}) for i in range(1, tree.height + 1))
    return roll_up(values, estimate, np.ones(len(values)), tree, estimate >= ratio,
                   alpha=nodes * float(ndtr(-ratio)), max_correlation=correlation)  # fmt: skip


ROLL_UP_CELLS = ["000", "001", "010", "011", "100", "other"]


def test_cells_pool_up_to_the_first_told_parent() -> None:
    """000 is alone; 001 with 010 and 011 under 0; 100 and other under the root."""
    estimate = np.array([50.0, 2.0, 3.0, 3.0, 4.0, 5.0])
    made = rolled(ROLL_UP_CELLS, estimate, cell_tree(ROLL_UP_CELLS, 2), 4.0)
    assert [(pool.label, pool.estimate) for pool in made] == [("01", 6.0)]
    # 001, 2: under 00, then 0, then the root: never 4 errors


def test_the_largest_correlation_decides() -> None:
    values, estimate = ["00", "01"], np.array([2.0, 2.0])
    tree = cell_tree(values, 1)
    assert labels(rolled(values, estimate, tree, 2.5)) == ["0"]
    assert not rolled(values, estimate, tree, 2.5, 1.0)
    assert sum_error(2.0, 2.0, 0.0) == pytest.approx(np.sqrt(2))
    assert sum_error(2.0, 2.0, 1.0) == 2


@given(st.lists(st.tuples(st.text("01", min_size=3, max_size=3), st.floats(-1, 9)),
                min_size=1, max_size=8, unique_by=lambda pair: pair[0]),
       st.floats(2.5, 5), st.floats(0, 1))  # fmt: skip
def test_what_is_published_is_a_partition(pairs, ratio, correlation) -> None:
    values, numbers = [value for value, _ in pairs], np.array([number for _, number in pairs])
    made = rolled(values, numbers, cell_tree(values, 2), ratio, correlation)
    held = np.flatnonzero(numbers >= ratio).tolist()
    for pool in made:
        assert len(pool.members)
        assert pool.estimate == pytest.approx(numbers[pool.members].sum())
        assert pool.estimate >= ratio * pool.std_error * (1 - 1e-9)
        assert all(pool.label == "*" or values[i].startswith(pool.label) for i in pool.members)
        held += pool.members.tolist()
    assert len(set(held)) == len(held)
    assert len(set(labels(made))) == len(made)


def test_pools_of_values_that_nobody_holds_are_rare() -> None:
    """alpha = .05: 20 of 400 expected, more than 36 once in 5,000 runs (binomial)."""
    rng = np.random.default_rng(0)
    values = [f"{i:03d}" for i in range(500)]
    tree, alone = cell_tree(values, 2), np.zeros(500, dtype=bool)
    false = sum(
        bool(roll_up(values, rng.normal(size=500), np.ones(500), tree, alone)) for _ in range(400)
    )
    assert false <= 36


def test_trees_of_hosts_strings_and_given_ones() -> None:
    hosts = ["www.example.org", "shop.example.co.uk", "example.org", "localhost"]
    paths = {
        path[0]: path[1:] for path in tree_of(hosts, RollUp("domain", suffixes=("co.uk",))).paths
    }
    assert paths["www.example.org"] == ("*.example.org", "*.org", "*")
    assert paths["shop.example.co.uk"] == ("*.example.co.uk", "*.co.uk", "*")
    assert paths["example.org"] == ("*.example.org", "*.org", "*")
    assert paths["localhost"] == ("*.localhost", "*.localhost", "*")
    (path,) = prefix_tree(["ab"], 3, 2, 1).paths
    assert path == ("ab", "ab*", "ab*", "a*", "*")
    made = rolled(["ab", "abc"], np.array([3.0, 3.0]), prefix_tree(["ab", "abc"], 3, 2), 3.5)
    assert [(pool.label, pool.members.tolist()) for pool in made] == [("ab*", [0, 1])]
    two = rolled(["ab", "abc", "abd"], np.array([4.0, 3.0, 3.0]),
                 prefix_tree(["ab", "abc", "abd"], 3, 2), 3.5)  # fmt: skip
    assert len(set(labels(two))) == len(two)
    own = Hierarchy((("fr", "europe", "world"), ("de", "europe", "world")))
    assert labels(rolled(["fr", "de"], np.full(2, 2.0), own, 2.5)) == ["europe"]


def test_what_does_not_fit_is_refused() -> None:
    for values, result in ((["00", "02"], "leaves of the tree"), (["00", "00"], "appears twice")):
        with pytest.raises(TableError, match=result):
            rolled(values, np.ones(2), cell_tree(["00", "01"], 1), 2.0)
    for lengths in ((), (0,), (2, 3), (1, 1)):
        with pytest.raises(PolicyError, match="must decrease"):
            prefix_tree(["a"], *lengths)


def test_both_reserved_values_are_under_the_root_alone() -> None:
    cells = ["000", "001", "other", "no_data"]
    assert not rolled(cells, np.array([1.0, 1.0, 9.0, 8.0]), cell_tree(cells, 2), 4.0)
    together = rolled(["other", "no_data"], np.array([2.5, 2.5]),
                      cell_tree(["other", "no_data"], 2), 3.0)  # fmt: skip
    assert labels(together) == ["*"]
