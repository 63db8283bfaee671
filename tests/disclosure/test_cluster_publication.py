"""What is published by a co-clustering: learnt trees, COC, COC_HG, MICRO and SYNTH."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disclosure.anonymize import DiversityRule, Hierarchy, anonymize, class_diversity
from disclosure.co_clustering import (
    LearntHierarchies,
    co_cluster,
    draw_numbers,
    generalize_clusters,
    learn_hierarchies,
    merge_small_clusters,
    merge_until_diverse,
    micro_aggregate,
    recode,
    synthesize,
    value_shares,
)
from disclosure.co_clustering.recoding import Intervals
from disclosure.errors import TableError
from tests.disclosure.iris import NUMBERS, figure_grid, fuse, iris, iris_pairs

C1, C2, C3 = range(3)  # C1u, C2u, C3u of Figure 3.3


# --- SYNTH -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "column", "shares"),
    [
        (C3, "Class", [0, 0.014723, 0.985277]),  # setosa, versicolor, virginica: see below
        (C3, "SepalLength", [0.0929, 0.6971, 0.2100]),
        (C2, "Class", [0, 0.0667, 0.9333]),
        (C1, "Class", [1, 0, 0]),
    ],
)
def test_shares_of_values_in_a_cluster(cluster, column, shares) -> None:
    """The thesis lists C3u's kinds as setosa, virginica, versicolor."""
    if (cluster, column) == (C3, "Class"):
        shares = [shares[0], shares[2], shares[1]]
    found = value_shares(figure_grid(), cluster)[column]
    assert found == pytest.approx(shares, abs=5e-5)


def test_synthetic_rows_have_the_grids_counts() -> None:
    """Each count has a normal deviate above 4.9 in 1 run of 1e6; 15 counts."""
    grid = figure_grid()
    rows = [synthesize(grid, np.random.default_rng(seed)) for seed in range(40)]
    assert all(len(column) == 150 for column in rows[0].values())
    for name, kind in grid.recoded.parts.items():
        shares = np.array([value_shares(grid, cluster)[name] for cluster in range(3)])
        expected = grid.cluster_sizes @ shares * len(rows)
        spread = np.sqrt(grid.cluster_sizes @ (shares * (1 - shares)) * len(rows))
        drawn = Counter(value for one in rows for value in one[name])
        for label, mean, deviation in zip(kind.labels, expected, spread, strict=True):
            assert abs(drawn[label] - mean) <= 4.9 * deviation + 1e-9


def test_numbers_are_drawn_within_their_intervals() -> None:
    """Evenly: of 30,000 draws in 10 whole numbers each is within 5 errors of a tenth."""
    rng = np.random.default_rng(3)
    ages, weights = Intervals((10.0, 20.0)), Intervals((1.5,))
    rows = {"age": ["]10,20]"] * 30_000 + ["<=10", ">20"], "weight": ["<=1.5", ">1.5"] * 15_001}
    parts = {"age": ages, "weight": weights}
    drawn = draw_numbers(rows, parts, {"age": (0, 90), "weight": (0.0, 3.0)}, rng)
    seen = Counter(drawn["age"][:30_000])
    assert set(seen) == set(map(str, range(11, 21)))
    assert all(abs(count - 3_000) < 5 * 52 for count in seen.values())
    assert 0 <= int(drawn["age"][-2]) <= 10
    assert 21 <= int(drawn["age"][-1]) <= 90
    assert all((float(w) <= 1.5) == (place % 2 == 0) for place, w in enumerate(drawn["weight"]))
    for column, bounds in (("age", (5, 15)), ("age", (0, 20)), ("town", (0, 1))):
        with pytest.raises(TableError, match=column):
            draw_numbers(rows, parts, {column: bounds}, rng)


@pytest.mark.parametrize("rule", [DiversityRule(2), DiversityRule(3), DiversityRule(1, 0.4)])
def test_clusters_grow_until_their_parts_meet_a_rule(rule: DiversityRule) -> None:
    model = co_cluster(recode(iris(), list(iris()), numbers=NUMBERS, intervals=3))
    grid = merge_until_diverse(model, 10, "Class", rule)
    measured = class_diversity(grid.partition.rows, iris()["Class"])
    assert measured.distinct.min() >= rule.distinct
    assert measured.closeness.max() <= rule.closeness + 1e-9
    assert len(grid.cluster_sizes) < len(merge_small_clusters(model, 10).cluster_sizes)
    with pytest.raises(TableError, match="'town'"):
        merge_until_diverse(model, 10, "town", rule)


# --- Learnt trees ----------------------------------------------------------------------------


def above(tree: Hierarchy) -> list[set[str]]:
    """The unions below the root, lowest first."""
    return [
        {path[0] for path in tree.paths if path[level] == label}
        for level in range(1, tree.height)
        for label in dict.fromkeys(path[level] for path in tree.paths)
        if sum(path[level] == label for path in tree.paths) > 1
    ]


def test_trees_of_iris() -> None:
    """The values of Table 3.4 (SepalWidth) and the same dendrogram."""
    learnt = learn_hierarchies(co_cluster(iris_pairs()))
    assert {name: above(tree) for name, tree in learnt.trees.items()} == {
        "SepalLength": [{"]5.4,6.3]", ">6.3"}],
        "SepalWidth": [{"<=2.9", "]2.9,3.2]"}],
        "PetalLength": [{"]2.633,4.9]", ">4.9"}],
        "PetalWidth": [{"]0.8667,1.6]", ">1.6"}],
        "Class": [{"versicolor", "virginica"}],
    }
    assert learnt.trees["SepalWidth"].paths == (
        ("<=2.9", "<=3.2", "any SepalWidth"),
        ("]2.9,3.2]", "<=3.2", "any SepalWidth"),
        (">3.2", ">3.2", "any SepalWidth"),
    )
    assert fuse(learnt.trees["Class"], "versicolor", "virginica") == "versicolor | virginica"


@pytest.mark.parametrize("rest", [0, 60])
def test_unions_that_read_alike_are_told_apart(rest: int) -> None:
    """`a` with `b | c`, and `a | b` with `c`: two nodes of one label were one, or no tree."""
    table = {
        "v": ["a", "b | c"] * 40 + ["a | b", "c"] * 40 + ["z"] * rest,
        "w": ["p"] * 80 + ["q"] * 80 + ["r"] * rest,
    }
    model = co_cluster(recode(table, ["v", "w"]))
    assert model.finest.counts.shape[0] == 2 + bool(rest)
    tree = learn_hierarchies(model).trees["v"]
    assert {frozenset(one) for one in above(tree)} >= {
        frozenset({"a", "b | c"}), frozenset({"a | b", "c"}),
    }  # fmt: skip


@st.composite
def tables(draw) -> dict[str, list[str]]:
    values = st.sampled_from(["x", "y", "x | y", "any a", "x | y (group)"])
    rows = draw(st.lists(st.tuples(values, values, st.integers(0, 9)), min_size=1, max_size=40))
    a, b, number = map(list, zip(*rows, strict=True))
    return {"a": a, "b": b, "n": list(map(str, number))}


@given(tables(), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_trees_and_classes_of_any_table(table, k) -> None:
    model = co_cluster(recode(table, "abn", numbers=["n"], intervals=4))
    learnt = learn_hierarchies(model)
    number = len(table["a"])
    for name, tree in learnt.trees.items():
        assert tuple(path[0] for path in tree.paths) == model.recoded.parts[name].labels
    if k > number:
        return
    grid = merge_small_clusters(model, k)
    own = model.recoded.to_table()
    for made in (generalize_clusters(grid), generalize_clusters(grid, learnt.trees),
                 micro_aggregate(grid)):  # fmt: skip
        published = made.to_table()
        assert min(Counter(zip(*published.values(), strict=True)).values()) >= k
        assert made.counts.tolist() == grid.cluster_sizes.tolist()
        for column, name in enumerate(model.recoded.parts):
            held = made.holds[made.of_row, model.recoded.codes[:, column]]
            assert made.misreported[name] == pytest.approx(1 - held.mean())
    whole = generalize_clusters(grid, learnt.trees)
    for name, tree in learnt.trees.items():
        published = whole.to_table()[name]
        for row in range(number):
            under = tree.leaves[tree.labels.index(published[row])]
            leaves = [path[0] for path, inside in zip(tree.paths, under, strict=True) if inside]
            column = list(model.recoded.parts).index(name)
            held = whole.holds[whole.of_row[row], model.recoded.codes[row, column]]
            assert held == (own[name][row] in leaves)


def with_a_lone_value(rows: int = 240) -> dict[str, list[str]]:
    """Names of which one person has each of two, and ages of which one is 88."""
    rng = np.random.default_rng(0)
    group = np.arange(rows) % 2
    names = np.where(group, rng.choice(["x", "y"], rows), rng.choice(["p", "q"], rows)).tolist()
    ages = np.where(group, rng.integers(17, 20, rows), rng.integers(30, 33, rows)).tolist()
    names[0], names[1], ages[3] = "Zaphod", "Trillian", 88
    return {"name": names, "age": list(map(str, ages)), "group": list(map(str, group))}


LONE = ("Zaphod", "Trillian", "88")


@pytest.mark.parametrize("numbers", [(), ("age",)])
def test_published_labels_name_nothing_below_k_persons(numbers: tuple[str, ...]) -> None:
    table, k = with_a_lone_value(), 20
    recoded = recode(table, list(table), numbers=numbers, floor=k)
    assert recoded.part_counts.min() >= k
    model = co_cluster(recoded)
    learnt, grid = learn_hierarchies(model), merge_small_clusters(model, k)
    rng = np.random.default_rng(1)
    ways = [
        anonymize(learnt.recode(table), learnt.columns(), k).to_table(),
        generalize_clusters(grid).to_table(),
        generalize_clusters(grid, learnt.trees).to_table(),
        micro_aggregate(grid).to_table(),
        synthesize(grid, rng),
    ]
    for published in ways:
        assert not [text for column in published.values() for text in column
                    if any(lone in text for lone in LONE)]  # fmt: skip
    assert "other values" in recoded.parts["name"].labels


def test_floorless_trees_name_nothing_rare() -> None:
    table = {"a": ["x"] * 60 + ["y"] * 59 + ["Zaphod"], "b": ["p"] * 60 + ["q"] * 60}
    learnt = learn_hierarchies(co_cluster(recode(table, ["a", "b"])))
    bare = anonymize(learnt.recode(table), learnt.columns(), k=10)
    assert any("Zaphod" in value for value in bare.to_table()["a"])
    careful = learnt.with_floor(table, 10)
    made = anonymize(careful.recode(table), careful.columns(), k=10)
    assert set(made.to_table()["a"]) == {"x", "y | other values"}
    assert made.counts.min() >= 10
    assert learnt.with_floor(table, 1) == learnt


def test_intervals_with_few_are_not_named_alone() -> None:
    parts = {"age": Intervals((20, 40, 87))}
    low, middle, high, rest = parts["age"].labels
    ages = {"age": ["18"] * 30 + ["30"] * 30 + ["60"] * 30 + ["88"]}
    split = Hierarchy(((low, f"{low} or {rest}", "any"), (middle, "middle", "any"),
                       (high, "middle", "any"), (rest, f"{low} or {rest}", "any")))  # fmt: skip
    named = LearntHierarchies(parts, {"age": split}).with_floor(ages, 20).trees["age"]
    assert fuse(named, low, rest) == "<=20 | other values"
    assert fuse(named, middle, high) == "]20,87]"
    joined = Hierarchy(((low, "young", "any"), (middle, "young", "any"),
                        (high, "old", "any"), (rest, "old", "any")))  # fmt: skip
    named = LearntHierarchies(parts, {"age": joined}).with_floor(ages, 20).trees["age"]
    assert fuse(named, high, rest) == ">40"


def test_pools_of_rare_values_are_not_small() -> None:
    """One lone value takes the next rarest with it; a value of the pool's name is distinguished."""
    column = ["a"] * 50 + ["b"] * 30 + ["c"] * 21 + ["lone"]
    made = recode({"v": column, "w": column}, ["v", "w"], floor=20)
    assert made.parts["v"].labels == ("a", "b", "other values")
    assert made.part_counts.tolist() == [50, 30, 22] * 2
    named = ["other values"] * 50 + ["b"] * 30 + ["lone", "rare"] * 10
    assert recode({"v": named, "w": named}, ["v", "w"], floor=20).parts["v"].labels == (
        "b", "other values", "other values (group)")  # fmt: skip
    few = recode({"v": list("abc"), "w": list("abc")}, ["v", "w"], floor=3)
    assert few.parts["v"].labels == ("other values",)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"columns": {"a": {"paths": [["x", 3]]}}},
        {"columns": {"a": {"cuts": [1.0], "paths": [["x", "r"]]}}},
        {"columns": {"a": {"cuts": [2, 1], "paths": [["x", "r"]]}}},
        {"columns": {"a": {}}},
    ],
)
def test_a_file_that_holds_no_trees_is_refused(change, tmp_path: Path) -> None:
    path = tmp_path / "hierarchies.json"
    path.write_text(json.dumps({"version": 1, "columns": {}} | change))
    with pytest.raises(TableError):
        LearntHierarchies.load(path)


# --- COC, COC_HG, MICRO ----------------------------------------------------------------------


def labels(*shown: str) -> dict[str, str]:
    columns = ("Class", "PetalLength", "PetalWidth", "SepalLength", "SepalWidth")
    return dict(zip(columns, shown, strict=True))


EXPECTED = {
    50: labels("setosa", "<=2.633", "<=0.8667", "<=5.4", ">3.2"),
    51: labels("virginica", ">4.9", ">1.6", "]5.4,6.3]", "<=2.9"),
    49: labels("versicolor", "]2.633,4.9]", "]0.8667,1.6]", "]5.4,6.3]", "<=2.9"),
}


@pytest.mark.parametrize("way", ["coc", "coc-hg"])
def test_classes_of_iris(way: str) -> None:
    """The thesis prints ]0.8,1.65] and ]2.4,4.85] for C3u, though the grid has the bounds below."""
    trees = learn_hierarchies(co_cluster(iris_pairs())).trees if way == "coc-hg" else None
    made = generalize_clusters(figure_grid(), trees)
    found = {
        int(count): {name: column[cluster] for name, column in made.labels.items()}
        for cluster, count in enumerate(made.counts)
    }
    assert found == EXPECTED
    long_sepals = made.recoded.codes[:, 0] == 2
    assert ((made.of_row == C3) & long_sepals).sum() == 10  # all of them misreported
    assert made.misreported["Class"] == pytest.approx(1 / 150)


def test_micro_aggregation_takes_the_most_frequent_part() -> None:
    made = micro_aggregate(figure_grid())
    for name, column in iris_pairs().to_table().items():
        for cluster in range(3):
            own = Counter(v for v, c in zip(column, made.of_row, strict=True) if c == cluster)
            assert own[made.labels[name][cluster]] == max(own.values())


def test_trees_with_a_pool_are_written_and_read(tmp_path: Path) -> None:
    table = with_a_lone_value()
    learnt = learn_hierarchies(co_cluster(recode(table, list(table), numbers=["age"], floor=20)))
    learnt.save(tmp_path / "trees.json")
    assert "Zaphod" not in (tmp_path / "trees.json").read_text()
    read = LearntHierarchies.load(tmp_path / "trees.json")
    assert read == learnt
    assert read.recode({**table, "name": ["Marvin"] * 240})["name"] == ["other values"] * 240


def test_the_order_of_synthetic_rows_tells_no_cluster() -> None:
    drawn = synthesize(figure_grid(), np.random.default_rng(1))["Class"]
    assert 5 < drawn[:50].count("setosa") < 30


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=80), st.integers(1, 30), st.integers(1, 20)
)
def test_every_part_reaches_the_floor_of_rows(values, floor, intervals) -> None:
    column = list(map(str, values))
    made = recode(
        {"v": column, "w": column}, ["v", "w"], numbers=["v"], intervals=intervals, floor=floor
    )
    assert made.part_counts.sum() == 2 * len(values)
    assert made.part_counts.min() >= min(floor, len(values))
