"""Co-clustering: the recoding, the cost by enumeration, the engine, and the grids of Iris."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disclosure.co_clustering import (
    Intervals,
    Partition,
    Recoded,
    Values,
    co_cluster,
    merge_small_clusters,
    recode,
)
from disclosure.co_clustering.engine import MAX_PARTS, Search
from disclosure.co_clustering.merges import GridCost
from disclosure.errors import TableError
from tests.disclosure.iris import GROUPS, figure_grid, iris_pairs, part_of

KHIOPS_COST = 5646.82  # of Khiops's optimum, by this formula
NULL_COST = 5966.41


def partitions(items: int) -> Iterator[list[int]]:
    """Every partition of some items, as the group of each."""
    if items == 0:
        yield []
        return
    for smaller in partitions(items - 1):
        for group in range(max(smaller, default=-1) + 2):
            yield [*smaller, group]


def exact_odds(pairs: list[tuple[int, int]], rows: list[int], parts: list[int]) -> Fraction:
    """exp(-cost), in whole numbers: a second calculation, from the pairs one by one."""
    groups = (rows, parts)
    cells = [[0] * (max(parts) + 1) for _ in range(max(rows) + 1)]
    for v, w in pairs:
        cells[rows[v]][parts[w]] += 1
    odds = Fraction(1)
    for axis in (0, 1):
        values, number = len(groups[axis]), max(groups[axis]) + 1
        ways = sum(max(one) < number for one in partitions(values))  # B(V, I)
        odds /= values * ways
        for group in range(number):
            members = [v for v in range(values) if groups[axis][v] == group]
            of_value = [sum(pair[axis] == v for pair in pairs) for v in members]
            total = sum(of_value)
            odds /= math.comb(total + len(members) - 1, len(members) - 1)
            odds /= Fraction(math.factorial(total), math.prod(map(math.factorial, of_value)))
    flat = [count for line in cells for count in line]
    odds /= math.comb(len(pairs) + len(flat) - 1, len(flat) - 1)
    odds /= Fraction(math.factorial(len(pairs)), math.prod(map(math.factorial, flat)))
    return odds


def cost_of(pairs: list[tuple[int, int]], rows: list[int], parts: list[int]) -> float:
    table = np.zeros((len(rows), len(parts)), dtype=np.int64)
    for pair in pairs:
        table[pair] += 1
    counts = np.zeros((max(rows) + 1, max(parts) + 1), dtype=np.int64)
    np.add.at(counts, (np.array(rows)[:, None], np.array(parts)[None, :]), table)
    cost = GridCost((table.sum(axis=1), table.sum(axis=0)), (len(rows), len(parts)))
    return cost.total(counts, (np.bincount(rows), np.bincount(parts)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8))
@settings(max_examples=15)
def test_costs_are_those_of_exact_arithmetic(pairs) -> None:
    for rows, parts in itertools.product(partitions(4), partitions(3)):
        exact = exact_odds(pairs, rows, parts)
        log = math.log(exact.numerator) - math.log(exact.denominator)
        assert cost_of(pairs, rows, parts) == pytest.approx(-log, abs=1e-9)


@st.composite
def small_tables(draw, rows: int = 5) -> dict[str, list[str]]:
    value = st.sampled_from("xyz")
    drawn = draw(st.lists(st.tuples(value, value), min_size=1, max_size=rows))
    return dict(zip("ab", map(list, zip(*drawn, strict=True)), strict=True))


@given(small_tables())
@settings(max_examples=3, deadline=None)
def test_the_engine_against_all_partitions(table) -> None:
    """Never below the optimum, and of these tables at it: every grid of 5 rows, 6 parts."""
    recoded = recode(table, "ab")
    model = co_cluster(recoded)
    search = Search(recoded)
    classes, parts = len(search.weights), recoded.num_parts
    costs = [
        search.cost.total(*search._grid(Partition(np.array(rows), np.array(groups))))
        for rows in partitions(classes)
        for groups in partitions(parts)
    ]
    assert model.cost >= min(costs) - 1e-6
    assert model.cost == pytest.approx(min(costs), abs=0.7)  # greedy: half the odds at worst


@given(small_tables(rows=60), st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_the_search_states_the_true_cost(table, k) -> None:
    recoded = recode(table, "ab")
    model = co_cluster(recoded)
    search = Search(recoded)
    for number in range(len(model.merges) + 1):
        grid = model.after(number)
        cost = search.cost.total(grid.counts, tuple(map(np.bincount, grid.partition.axes)))
        said = model.merges[number - 1].cost if number else model.cost
        assert said == pytest.approx(cost, abs=1e-6)
        assert cost >= model.cost - 1e-6
    assert grid.counts.shape == (1, 1)
    if k <= recoded.num_rows:
        assert merge_small_clusters(model, k).smallest >= k


@pytest.mark.parametrize("least", [1, 60, 75, 90])
def test_moves_leave_each_group_enough_rows(least: int) -> None:
    """30 of the 90 rows of a group are like those of the other one: all of them would leave."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], [100, 60])
    table = {name: [f"{k}{rng.integers(4)}" for k in kind] for name in "abcd"}
    recoded = recode(table, "abcd")
    search = Search(recoded)
    parts = np.array([int(label[0]) for _, label in recoded.part_names])
    moved = search.move_rows(np.repeat([0, 1], [70, 90]), parts, least)
    kept = max(60, least)
    assert np.bincount(moved).tolist() == [160 - kept, kept]


def test_planted_groups_are_found() -> None:
    rng = np.random.default_rng(4)
    kind = rng.integers(0, 3, 600)
    table = {name: [f"{name}{k}{rng.integers(3)}" for k in kind] for name in "abcd"}
    grid = co_cluster(recode(table, "abcd")).finest
    assert grid.counts.shape == (3, 3)
    assert len(set(zip(kind.tolist(), grid.partition.rows.tolist(), strict=True))) == 3
    noise = {name: rng.choice(list("uvw"), 600).tolist() for name in "abcd"}
    alone = co_cluster(recode(noise, "abcd"))
    assert alone.finest.counts.shape == (1, 1)
    assert alone.finest.information == 0.0


def test_too_many_pairs_for_memory_are_refused() -> None:
    many = {"a": [f"v{n}" for n in range(MAX_PARTS)], "b": ["x"] * MAX_PARTS}
    with pytest.raises(TableError, match=r"column 'a' out, which has 1500, or cut it"):
        co_cluster(recode(many, "ab"))


# --- Iris: the vectors of the thesis ---------------------------------------------------------


def test_intervals_of_iris() -> None:
    pairs = iris_pairs()
    cuts = [kind.cuts for kind in pairs.parts.values() if isinstance(kind, Intervals)]
    expected = [(5.4, 6.3), (2.9, 3.2), (2.633, 4.9), (0.867, 1.6)]
    assert np.array(cuts) == pytest.approx(np.array(expected), abs=5e-4)
    counts = [52, 56, 42, 57, 51, 42, 50, 54, 46, 50, 52, 48, 50, 50, 50]
    assert pairs.part_counts.tolist() == counts
    assert (pairs.codes.size, pairs.num_rows, pairs.num_parts) == (750, 150, 15)
    assert pairs.to_table()["SepalLength"][0] == "<=5.4"


def groups_of(parts: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(parts == group).tolist()) for group in np.unique(parts)}


def test_the_engine_finds_the_grid_of_khiops() -> None:
    """Khiops 11.0.1 finds 3 x 8; cut to 10 groups that is Figure 3.3, to 5 Figure 3.4."""
    model = co_cluster(iris_pairs())
    assert model.finest.counts.shape == (3, 8)
    assert model.cost == pytest.approx(KHIOPS_COST, abs=0.005)
    assert model.null_cost == pytest.approx(NULL_COST, abs=0.005)
    figure = figure_grid()
    cut = model.after(1)
    for axis in (0, 1):
        assert groups_of(cut.partition.axes[axis]) == groups_of(figure.partition.axes[axis])
    assert cut.information == pytest.approx(0.9997, abs=0.002)
    coarse = model.after(6)
    assert sorted(coarse.counts.tolist()) == [[17, 297, 186], [227, 23, 0]]
    assert sorted(coarse.cluster_sizes.tolist()) == [50, 100]
    assert coarse.information == pytest.approx(0.64, abs=0.005)
    joined = [GROUPS[0] + GROUPS[1], GROUPS[2] + GROUPS[3], GROUPS[4] + GROUPS[5] + GROUPS[6]]
    expected = {frozenset(map(part_of, names)) for names in joined}
    assert groups_of(coarse.partition.parts) == expected


# --- Recoding --------------------------------------------------------------------------------


@given(st.lists(st.integers(-5, 5) | st.floats(-1e6, 1e6), min_size=1, max_size=40),
       st.integers(1, 12))  # fmt: skip
def test_intervals_are_full_and_hold_their_numbers(numbers, intervals) -> None:
    table = {"a": list(map(str, numbers)), "b": ["v"] * len(numbers)}
    recoded = recode(table, ["a", "b"], numbers=["a"], intervals=intervals)
    kind = recoded.parts["a"]
    assert isinstance(kind, Intervals)
    assert len(kind.labels) == len(set(kind.labels)) <= intervals
    assert (recoded.part_counts > 0).all()
    ends = [-math.inf, *kind.cuts, math.inf]
    for number, part in zip(numbers, recoded.codes[:, 0].tolist(), strict=True):
        assert ends[part] < number <= ends[part + 1]


def test_labels_of_intervals() -> None:
    kind = Intervals((1.0, 2.5, 4.0))
    assert kind.labels == ("<=1", "]1,2.5]", "]2.5,4]", ">4")
    assert kind.group_label([0, 1, 3]) == "<=2.5 or >4"
    assert kind.group_label([1, 2]) == "]1,4]"
    assert kind.group_label(range(4)) == "any number"
    assert Values(("a", "b", "c")).group_label([2, 0]) == "a | c"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: recode({"a": ["1"], "b": ["x"]}, ["a"]), "use at least 2 and 1"),
        (lambda: recode({"a": ["1"], "b": ["x"]}, ["a", "b"], floor=0), "floor of 0"),
        (lambda: recode({"a": ["1"], "b": ["x"]}, ["a", "c"]), "'c'"),
        (lambda: recode({"a": ["1"], "b": ["x"]}, ["a", "b"], numbers=["b"]), "'x'"),
        (lambda: recode({"a": ["nan"], "b": ["x"]}, ["a", "b"], numbers=["a"]), "not finite"),
        (lambda: recode({"a": [], "b": []}, ["a", "b"]), "no rows"),
        (lambda: Intervals((2.0, 1.0)), "rise"),
        (lambda: Recoded.encode({"a": ["z"]}, {"a": Values(("y",))}), "'z'"),
        (lambda: merge_small_clusters(co_cluster(iris_pairs()), 0), "150"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make, message) -> None:
    with pytest.raises(TableError, match=message):
        make()


# --- Adult -----------------------------------------------------------------------------------


def test_more_intervals_than_numbers_cost_nothing() -> None:
    table = {"a": list(map(str, [3, 1, 4, 1, 5, 9, 2, 6])), "b": ["x"] * 8}
    parts = [
        recode(table, ["a", "b"], numbers=["a"], intervals=number).parts["a"].labels
        for number in (8, 80, 10**15)
    ]
    assert parts[0] == parts[1] == parts[2]
    assert len(parts[0]) == 7
