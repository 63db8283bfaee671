"""Measures against the vectors of the thesis and against constructed tables."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import CategoricalNB

from disclosure.anonymize import Columns, Hierarchy, anonymize, specialize_column
from disclosure.errors import TableError
from disclosure.rows import utility
from disclosure.rows.comparison import compare, link_records, missing_person_share, origin_test


def exclusive_or(rows: int, seed: int, *, independent: bool = False) -> dict[str, list[str]]:
    """Three bits, the third the parity of the others; or three independent ones."""
    bits = np.random.default_rng(seed).integers(0, 2, (rows, 3))
    if not independent:
        bits[:, 2] = bits[:, 0] ^ bits[:, 1]
    return {name: bits[:, c].astype(str).tolist() for c, name in enumerate("xyz")}


def test_hellinger_and_kl() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])
    assert utility.hellinger(p, p) == 0
    assert utility.hellinger(p, q) == pytest.approx(np.sqrt(0.5))
    assert utility.hellinger(np.array([1.0, 0]), np.array([0, 1.0])) == pytest.approx(1)
    assert utility.kl_divergence(p, q) == float("inf")
    assert utility.kl_divergence(q, q) == 0
    assert utility.kl_divergence(np.array([0.5, 0.5]), np.array([0.25, 0.75])) == pytest.approx(
        0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    )


def test_queries_have_the_error_that_their_definition_gives() -> None:
    """One column of two values, so that the four subsets are known: {}, {a}, {b}, {a, b}."""
    original = {"x": ["a"] * 6 + ["b"] * 4}
    published = {"x": ["a"] * 3 + ["b"] * 7}
    rng = np.random.default_rng(1)
    found = utility.counting_query_error(original, published, rng, num_queries=4000, num_columns=1)
    expected = np.mean([0, 0.3 / 0.6, 0.3 / 0.4, 0])
    # 4,000 draws of a variable of standard deviation .325: 5 standard errors, false alarm 6e-7
    assert found == pytest.approx(expected, abs=5 * 0.325 / np.sqrt(4000))
    same = utility.counting_query_error(original, original, rng, num_columns=1)
    assert same == 0


def test_the_floor_bounds_the_error_of_empty_queries() -> None:
    original, published = {"x": ["0"] * 10}, {"x": ["5"] * 10}
    kwargs = {"numeric": ["x"], "num_columns": 1, "num_queries": 3}
    rng = np.random.default_rng(0)
    assert utility.counting_query_error(original, published, rng, floor=0.5, **kwargs) == 1
    gone = {"x": ["a"] * 99 + ["b"]}, {"x": ["a"] * 50 + ["c"] * 50}
    errors = [
        utility.counting_query_error(*gone, np.random.default_rng(0), num_columns=1, floor=floor)
        for floor in (0.01, 0.1, 1.0)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_boosted_trees_see_more_than_naive_bayes() -> None:
    real, made = exclusive_or(600, 1), exclusive_or(600, 2, independent=True)
    assert origin_test(real, made, seed=0) > 0.7
    rows = {n: real[n] + made[n] for n in real} | {"origin": ["real"] * 600 + ["made"] * 600}
    again = {
        n: exclusive_or(600, 3)[n] + exclusive_or(600, 4, independent=True)[n] for n in real
    } | {"origin": rows["origin"]}
    codes, tested = utility.encode_alike(rows, again)
    bayes = CategoricalNB().fit(codes[:, :3], codes[:, 3])
    scores = bayes.predict_proba(tested[:, :3])[:, 1]
    assert abs(roc_auc_score(tested[:, 3], scores) - 0.5) < 0.05
    # two halves of one law: standard error of an AUC of 600 against 600 is .017
    assert abs(origin_test(real, exclusive_or(600, 5), seed=0) - 0.5) < 5 * 0.017


def brute_missing_person(original, published):
    shares = []
    for missing in range(len(original)):
        left = list(published)
        for row in [*original[:missing], *original[missing + 1 :]]:
            if row in left:
                left.remove(row)
        shares.append(len(left) / len(published))
    return np.mean(shares)


def test_missing_person_is_what_striking_off_gives() -> None:
    rng = np.random.default_rng(3)
    for rows, shown in itertools.product((1, 4, 9), (1, 5, 9)):
        original, published = (rng.integers(0, 4, n).astype(str).tolist() for n in (rows, shown))
        found = missing_person_share({"x": original}, {"x": published})
        assert found == pytest.approx(brute_missing_person(original, published))


def test_records_link_to_rows_while_possible() -> None:
    rng = np.random.default_rng(5)
    original = {f"c{c}": rng.integers(0, 20, 300).astype(str).tolist() for c in range(4)}
    assert link_records(original, original) > 0.95
    shuffled = {name: rng.permutation(column).tolist() for name, column in original.items()}
    assert link_records(original, shuffled) < 0.02
    flat = {name: ["0"] * 300 for name in original}
    assert link_records(flat, flat) == 0


def test_generalized_values_are_spread_over_their_leaves() -> None:
    tree = Hierarchy(tuple((leaf, leaf[0], "top") for leaf in ["a1", "a2", "b1"]))
    made = anonymize({"x": ["a1", "a2"] * 500 + ["b1"]}, Columns({"x": tree}), 501,
                     suppression_budget=0.01)  # fmt: skip
    labels = [label for label in made.to_table()["x"] if label != "*"]
    drawn = specialize_column(labels, tree, np.random.default_rng(0))
    assert len(drawn) == 1000
    # 1,000 fair draws: 5 standard deviations, false alarm 6e-7
    assert abs(drawn.count("a1") - 500) < 5 * np.sqrt(250)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare({"x": ["a"]}, {"y": ["a"]}, seed=0), "different columns"),
        (lambda: compare({"x": []}, {"x": ["a"]}, seed=0), "1 or more"),
        (lambda: compare({"x": ["a"]}, {"x": ["a"]}, seed=0), "too few"),
        (
            lambda: utility.counting_query_error(
                {"x": ["a"]}, {"x": ["a"]}, np.random.default_rng(0)
            ),
            "num_columns = 2 in 1 to 1",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message) -> None:
    with pytest.raises(TableError, match=message):
        call()
