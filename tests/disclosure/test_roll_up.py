"""Rare values pooled along trees: partitions, errors of sums, false pools, trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError, TableError
from disclosure.release import RollUp
from disclosure.release.pooling import Pool, roll_up, sum_error, tree_of
from disclosure.typing import Floats


def cell_tree(cells: list[str], levels: int) -> Hierarchy:
    return tree_of(cells, RollUp("cells", levels=levels))


def prefix_tree(values: list[str], *lengths: int) -> Hierarchy:
    return tree_of(values, RollUp("prefix", lengths=lengths))


def labels(pools: list[Pool]) -> list[str]:
    return [pool.label for pool in pools]


def rolled(
    values: list[str], estimate: Floats, tree: Hierarchy, ratio: float, correlation: float = 0.0
) -> list[Pool]:
    """Pools of estimates with errors of 1 that reach a ratio; so do values by themselves."""
    nodes = sum(len({path[i] for path in tree.paths}) for i in range(1, tree.height + 1))
    return roll_up(values, estimate, np.ones(len(values)), tree, estimate >= ratio,
                   alpha=nodes * float(ndtr(-ratio)), max_correlation=correlation)  # fmt: skip


CELLS = ["000", "001", "010", "011", "100", "other"]


def test_cells_pool_up_to_the_first_told_parent() -> None:
    """000 is alone; 001 with 010 and 011 under 0; 100 and other under the root."""
    estimate = np.array([50.0, 2.0, 3.0, 3.0, 4.0, 5.0])
    made = rolled(CELLS, estimate, cell_tree(CELLS, 2), 4.0)
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
    for values, told in ((["00", "02"], "leaves of the tree"), (["00", "00"], "appears twice")):
        with pytest.raises(TableError, match=told):
            rolled(values, np.ones(2), cell_tree(["00", "01"], 1), 2.0)
    for lengths in ((), (0,), (2, 3), (1, 1)):
        with pytest.raises(PolicyError, match="must fall"):
            prefix_tree(["a"], *lengths)


def test_both_reserved_values_are_under_the_root_alone() -> None:
    cells = ["000", "001", "other", "no_data"]
    assert not rolled(cells, np.array([1.0, 1.0, 9.0, 8.0]), cell_tree(cells, 2), 4.0)
    together = rolled(["other", "no_data"], np.array([2.5, 2.5]),
                      cell_tree(["other", "no_data"], 2), 3.0)  # fmt: skip
    assert labels(together) == ["*"]
