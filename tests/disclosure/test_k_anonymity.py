"""The greedy k-anonymizer: its exact vectors and its invariants."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disclosure.anonymize import (
    Columns,
    DiversityRule,
    Hierarchy,
    IntervalColumn,
    anonymize,
    class_diversity,
)
from disclosure.errors import TableError
from tests.disclosure.iris import flat, fuse

PLACES = {"North": "USA Canada", "South": "Brazil", "West": "Iran Egypt", "East": "India Japan"}
CONTINENTS = {"North": "America", "South": "America", "West": "Asia", "East": "Asia"}
COUNTRIES = Hierarchy(
    tuple(
        (country, part, CONTINENTS[part], "Country")
        for part, countries in PLACES.items()
        for country in countries.split()
    )
)
POSTCODES = ["75005", "75006", "75011", "59000", "59100", "34017"]
STATUSES = ["Marie", "Divorce", "Celib", "Veuf"]
PEOPLE = Columns(
    {
        "sex": flat(["M", "F"], "any sex"),
        "postcode": Hierarchy(tuple((code, code[:2], "FR") for code in POSTCODES)),
        "status": flat(STATUSES, "Inconnu"),
    }
)
SIX = {
    "sex": ["M", "M", "F", "F", "F", "M"],
    "postcode": ["75005", "75006", "59000", "59100", "59000", "34017"],
    "status": ["Marie", "Divorce", "Celib", "Celib", "Celib", "Veuf"],
}


@pytest.mark.parametrize(
    ("first", "second", "distance", "fusion"),
    [
        ("USA", "Canada", 1 / 3, "North"),
        ("USA", "Brazil", 2 / 3, "America"),
        ("Canada", "Japan", 1, "Country"),
        ("Japan", "Asia", 2 / 3, "Asia"),
        ("East", "East", 0, "East"),
    ],
)
def test_distances_and_fusions_of_countries(first, second, distance, fusion) -> None:
    for pair in ((first, second), (second, first)):
        assert fuse(COUNTRIES, *pair) == fusion
        if first != second:
            made = anonymize({"place": list(pair)}, Columns({"place": COUNTRIES}), 2)
            costs = [0 if one == fusion else distance for one in pair]
            assert made.merge_costs == pytest.approx(sum(costs))


def test_two_rows_become_one_pair() -> None:
    """Example 1: distances 0, 1/2 and 1."""
    pair = {name: column[:2] for name, column in SIX.items()}
    made = anonymize(pair, PEOPLE, 2)
    assert made.to_table() == {"sex": ["M"] * 2, "postcode": ["75"] * 2, "status": ["Inconnu"] * 2}
    assert made.merge_costs.tolist() == [2 * 1.5]


@pytest.mark.parametrize(("k", "costs"), [(2, [3.0, 1.5, 4.0]), (3, [3.0, 4.0, 1.5])])
def test_constructed_vector(k: int, costs: list[float]) -> None:
    made = anonymize(SIX, PEOPLE, k)
    assert made.merge_costs.tolist() == costs
    rows = Counter(zip(*made.to_table().values(), strict=True))
    assert rows == {("F", "59", "Celib"): 3, ("M", "FR", "Inconnu"): 3}
    assert made.leaf_loss == pytest.approx(6.6 / 18)
    assert made.completeness == 0


def test_numbers_become_intervals() -> None:
    made = anonymize({"age": ["20", "30", "70"]}, Columns({"age": IntervalColumn(0, 100)}), 3)
    assert made.to_table() == {"age": ["[20,70]"] * 3}
    # 20 and 30 first, .1 each; then both widen to .5, and so does 70
    assert made.merge_costs == pytest.approx([0.2, 1.5])
    assert made.leaf_loss == pytest.approx(0.5)


def test_rows_that_become_equal_are_one_class() -> None:
    """The program of the text keeps them apart."""
    tree = Hierarchy((("a1", "a"), ("a2", "a")))
    columns = Columns({"x": tree, "y": flat("yz", "any")}, {"x": 0.0})
    made = anonymize({"x": ["a1", "a2", "a", "a"], "y": ["y"] * 4}, columns, 2)
    assert made.to_table()["x"] == ["a"] * 4
    assert made.counts.tolist() == [4]


@pytest.mark.parametrize(
    ("values", "expected"), [("abbc", ["any", "b", "b", "any"]), ("acbb", ["any", "any", "b", "b"])]
)
def test_ties_prefer_classes_below_k(values, expected) -> None:
    columns = Columns({"x": flat("abc", "any")}, {"x": 0.0})
    assert anonymize({"x": list(values)}, columns, 2).to_table()["x"] == expected


def test_a_row_joins_its_parent_before_its_sibling() -> None:
    tree = Hierarchy(tuple((leaf, leaf[0], "top") for leaf in ["a1", "a2", "a3", "b1", "b2"]))
    table = {"x": ["a1", "a2", "a", "a3", "b1", "b1"]}
    made = anonymize(table, Columns({"x": tree}), 2)
    assert made.to_table()["x"] == ["a", "a", "a", "a", "b1", "b1"]


def test_a_last_class_below_k_joins_another() -> None:
    columns = Columns({"x": flat(["a", "b"], "any")})
    made = anonymize({"x": ["a", "a", "a", "b"]}, columns, 2)
    assert made.to_table()["x"] == ["any"] * 4


def test_weights_decide_what_is_kept() -> None:
    trees = {n: flat(["0", "1"], f"any {n}") for n in "xy"}
    table = {"x": ["0", "0", "1", "1"], "y": ["0", "1", "0", "1"]}
    keeps_x = anonymize(table, Columns(trees, {"x": 5.0}), 2).to_table()
    keeps_y = anonymize(table, Columns(trees, {"y": 5.0}), 2).to_table()
    assert keeps_x == {"x": table["x"], "y": ["any y"] * 4}
    assert keeps_y == {"x": ["any x"] * 4, "y": table["y"]}


def test_suppression_spares_the_others_and_keeps_its_budget() -> None:
    columns = Columns({"x": flat(["a", "b", "c"], "any")})
    table = {"x": ["a"] * 10 + ["b"] * 9 + ["c"]}
    assert anonymize(table, columns, 2).to_table()["x"][0] == "a"
    assert anonymize(table, columns, 2).leaf_loss == pytest.approx(0.5)
    made = anonymize(table, columns, 2, suppression_budget=0.05)
    assert made.to_table()["x"] == [*table["x"][:19], "*"]
    assert made.completeness == 0.05
    assert made.leaf_loss == pytest.approx(0.05)
    assert anonymize(table, columns, 2, suppression_budget=0.04).completeness == 0


@st.composite
def tables(draw):
    rows = draw(st.lists(st.tuples(*[st.sampled_from(c) for c in (POSTCODES, STATUSES)],
                                   st.integers(0, 9)), min_size=1, max_size=40))  # fmt: skip
    codes, statuses, ages = map(list, zip(*rows, strict=True))
    return {"postcode": codes, "status": statuses, "age": list(map(str, ages))}


@given(tables(), st.integers(1, 6), st.sampled_from([0.0, 0.2, 0.9]))
def test_published_rows_stand_k_times_and_cover(table, k, budget) -> None:
    kinds = {name: PEOPLE.kinds[name] for name in ("postcode", "status")}
    columns = Columns(kinds | {"age": IntervalColumn(0, 9)})
    number = len(table["age"])
    if k > number:
        with pytest.raises(TableError, match="k must be in"):
            anonymize(table, columns, k)
        return
    made = anonymize(table, columns, k, suppression_budget=budget)
    published = list(zip(*made.to_table().values(), strict=True))
    counts = Counter(row for row, kept in zip(published, made.published, strict=True) if kept)
    assert all(count >= k for count in counts.values())
    assert sorted(counts.values()) == sorted(made.counts.tolist())
    assert made.completeness <= budget
    for row in np.flatnonzero(made.published):
        assert published[row][0] in ("FR", table["postcode"][row], table["postcode"][row][:2])
        assert published[row][1] in ("Inconnu", table["status"][row])
        low, _, high = published[row][2].strip("[]").partition(",")
        assert int(low) <= int(table["age"][row]) <= int(high or low)


# Table 2.1 of the thesis
NINE = {
    "postcode": ["23677", "23602", "23678", "23905", "23909", "23906", "23605", "23673", "23607"],
    "diagnosis": ["H", "H", "H", "Ar", "H", "At", "H", "C", "C"],
}
CLASSES = np.repeat([0, 1, 2], 3)


def test_diversity_of_nine_patients() -> None:
    found = class_diversity(CLASSES, NINE["diagnosis"])
    assert found.sizes.tolist() == [3, 3, 3]
    assert found.distinct.tolist() == [1, 3, 2]
    assert found.entropy == pytest.approx([0, 1.0986, 0.6365], abs=1e-4)
    assert np.exp(found.entropy) == pytest.approx([1, 3, 1.89], abs=1e-2)
    assert found.closeness == pytest.approx([4 / 9] * 3)


@given(
    st.lists(
        st.tuples(st.sampled_from(POSTCODES), st.sampled_from("xyz")), min_size=3, max_size=40
    ),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
def test_classes_meet_the_rule_of_sensitive_columns(rows, k, distinct, closeness) -> None:
    table = {"postcode": [code for code, _ in rows]}
    said = [value for _, value in rows]
    columns = Columns({"postcode": PEOPLE.kinds["postcode"]})
    rule = DiversityRule(min(distinct, len(set(said))), closeness)
    made = anonymize(table, columns, k, sensitive=said, rule=rule)
    measured = class_diversity(made.of_row, said)
    assert measured.sizes.min() >= k
    assert measured.distinct.min() >= rule.distinct
    assert measured.closeness.max() <= closeness + 1e-9


def test_rules_that_remaining_rows_miss_are_errors() -> None:
    table = {"postcode": ["34017"] + ["75005"] * 6}
    columns = Columns({"postcode": PEOPLE.kinds["postcode"]})
    said = ["b"] + ["a"] * 6
    rule = DiversityRule(2)
    assert len(anonymize(table, columns, 2, sensitive=said, rule=rule).counts) == 1
    with pytest.raises(TableError, match="suppress fewer"):  # the one row of another value
        anonymize(table, columns, 2, sensitive=said, rule=rule, suppression_budget=0.2)
    with pytest.raises(TableError, match="7 rows, but 2 sensitive"):
        anonymize(table, columns, 2, sensitive=["a", "b"], rule=DiversityRule(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hierarchy((("a", "r"), ("b",))), "equal lengths"),
        (lambda: Hierarchy((("a", "r"), ("b", "s"))), "one root"),
        (lambda: Hierarchy((("a", "x", "r"), ("x", "y", "r"))), "two places"),
        (lambda: IntervalColumn(1, 1), "low < high"),
        (lambda: Columns({}), "do not exist"),
        (lambda: Columns(PEOPLE.kinds, {"sex": -1}), "0 or more"),
        (lambda: anonymize({"sex": ["M"]}, PEOPLE, 1), "columns missing"),
        (lambda: anonymize(SIX | {"sex": ["M"] * 5 + ["X"]}, PEOPLE, 2), "'X'"),
        (lambda: anonymize(SIX, PEOPLE, 2, suppression_budget=1.0), "budget"),
        (lambda: anonymize({"a": ["12"]}, Columns({"a": IntervalColumn(0, 9)}), 1), "outside"),
        (lambda: class_diversity([1], []), "1 classes"),
    ],
)
def test_what_cannot_be_is_refused(make, message) -> None:
    with pytest.raises(TableError, match=message):
        make()


def test_intervals_of_large_numbers_are_exact() -> None:
    ages = {"id": ["1234561", "1234567", "1234563"]}
    made = anonymize(ages, Columns({"id": IntervalColumn(0, 1e7)}), 3)
    assert made.to_table()["id"] == ["[1234561,1234567]"] * 3
