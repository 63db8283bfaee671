"""Rare values pooled along trees: partitions, errors of sums, false pools, trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from disclosure.anonymize import Hierarchy
from disclosure.errors import TableError
from disclosure.release.pooling import cell_tree, domain_tree, prefix_tree
from disclosure.release.roll_up import RolledUp, roll_up, sum_error
from disclosure.typing import Floats


def rolled(
    values: list[str], estimate: Floats, tree: Hierarchy, ratio: float, correlation: float = 0.0
) -> RolledUp:
    """Pools of estimates with errors of 1 that reach a ratio; so do values by themselves."""
    nodes = sum(len({path[i] for path in tree.paths}) for i in range(1, tree.height + 1))
    return roll_up(values, estimate, np.ones(len(values)), tree, estimate >= ratio,
                   alpha=nodes * float(ndtr(-ratio)), max_correlation=correlation)  # fmt: skip


CELLS = ["000", "001", "010", "011", "100", "other"]


def test_cells_pool_up_to_the_first_told_parent() -> None:
    """000 is alone; 001 with 010 and 011 under 0; 100 and other under the root."""
    estimate = np.array([50.0, 2.0, 3.0, 3.0, 4.0, 5.0])
    made = rolled(CELLS, estimate, cell_tree(CELLS, 2), 4.0)
    assert made.labels[0] == "000"
    assert dict(zip(made.labels, made.estimate.tolist(), strict=True)) == {
        "000": 50.0, "other": 5.0, "100": 4.0, "01": 6.0,
    }  # fmt: skip
    assert made.of_value[1] == -1  # 2: under 00, then 0, then the root: never 4 errors


def test_the_largest_correlation_decides() -> None:
    values, estimate = ["00", "01"], np.array([2.0, 2.0])
    tree = cell_tree(values, 1)
    assert rolled(values, estimate, tree, 2.5).labels == ("0",)
    apart = rolled(values, estimate, tree, 2.5, 1.0)
    assert apart.labels == ()
    assert sum_error(np.ones(2), 0.0) == pytest.approx(np.sqrt(2))
    assert sum_error(np.ones(2), 1.0) == 2


@given(st.lists(st.tuples(st.text("01", min_size=3, max_size=3), st.floats(-1, 9)),
                min_size=1, max_size=8, unique_by=lambda pair: pair[0]),
       st.floats(2.5, 5), st.floats(0, 1))  # fmt: skip
def test_what_is_published_is_a_partition(pairs, ratio, correlation) -> None:
    values, numbers = [value for value, _ in pairs], np.array([number for _, number in pairs])
    made = rolled(values, numbers, cell_tree(values, 2), ratio, correlation)
    for group, (label, total) in enumerate(zip(made.labels, made.estimate, strict=True)):
        members = made.members(group)
        assert len(members)
        assert total == pytest.approx(numbers[members].sum())
        assert total >= ratio * made.std_error[group] * (1 - 1e-9)
        assert all(label == "*" or values[i].startswith(label) for i in members)
    assert len(set(made.labels)) == len(made.labels)


def test_pools_of_values_that_nobody_holds_are_rare() -> None:
    """alpha = .05: 20 of 400 expected, more than 36 once in 5,000 runs (binomial)."""
    rng = np.random.default_rng(0)
    values = [f"{i:03d}" for i in range(500)]
    tree, alone = cell_tree(values, 2), np.zeros(500, dtype=bool)
    false = sum(
        bool(roll_up(values, rng.normal(size=500), np.ones(500), tree, alone).labels)
        for _ in range(400)
    )
    assert false <= 36


def test_trees_of_hosts_strings_and_given_ones() -> None:
    hosts = ["www.example.org", "shop.example.co.uk", "example.org", "localhost"]
    paths = {path[0]: path[1:] for path in domain_tree(hosts, ["co.uk"]).paths}
    assert paths["www.example.org"] == ("*.example.org", "*.org", "*")
    assert paths["shop.example.co.uk"] == ("*.example.co.uk", "*.co.uk", "*")
    assert paths["example.org"] == ("*.example.org", "*.org", "*")
    assert paths["localhost"] == ("*.localhost", "*.localhost", "*")
    (path,) = prefix_tree(["ab"], [3, 2, 1]).paths
    assert path == ("ab", "ab*", "ab*", "a*", "*")
    made = rolled(["ab", "abc"], np.array([3.0, 3.0]), prefix_tree(["ab", "abc"], [3, 2]), 3.5)
    assert made.labels == ("ab*",)
    assert made.of_value.tolist() == [0, 0]
    two = rolled(["ab", "abc", "abd"], np.array([4.0, 3.0, 3.0]),
                 prefix_tree(["ab", "abc", "abd"], [3, 2]), 3.5)  # fmt: skip
    assert len(set(two.labels)) == len(two.labels)
    own = Hierarchy((("fr", "europe", "world"), ("de", "europe", "world")))
    assert rolled(["fr", "de"], np.full(2, 2.0), own, 2.5).labels == ("europe",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"std_error": np.zeros(2)}, "above 0"),
        ({"estimate": np.array([np.nan, 1])}, "finite"),
        ({"values": ["00", "02"]}, "leaves of the tree"),
        ({"values": ["00", "00"]}, "appears twice"),
        ({"max_correlation": 1.5}, "correlation in"),
        ({"alpha": 0.0}, "alpha"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], told: str) -> None:
    fields = {"values": ["00", "01"], "estimate": np.ones(2), "std_error": np.ones(2),
              "tree": cell_tree(["00", "01"], 1), "alone": np.zeros(2, dtype=bool)}  # fmt: skip
    with pytest.raises(TableError, match=told):
        roll_up(**fields | changes)
    for bad in ([], [0]), ([2, 3], [2, 3]), (["a"], [1, 2]):
        with pytest.raises(TableError):
            prefix_tree([str(value) for value in bad[0]], bad[1])


def test_both_reserved_values_are_under_the_root_alone() -> None:
    cells = ["000", "001", "other", "no_data"]
    made = rolled(cells, np.array([1.0, 1.0, 9.0, 8.0]), cell_tree(cells, 2), 4.0)
    assert dict(zip(made.labels, made.estimate.tolist(), strict=True)) == {
        "other": 9.0, "no_data": 8.0,
    }  # fmt: skip
    together = rolled(["other", "no_data"], np.array([2.5, 2.5]),
                      cell_tree(["other", "no_data"], 2), 3.0)  # fmt: skip
    assert together.labels == ("*",)
