"""Suppressed cells of tables with sums over rows and columns, against linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publication.errors import ReleaseError
from publication.release.complement import _MANY, Network, complement, exposed_cells


def network(rows: int, columns: int, sums: list[bool], hidden: list[bool], fixed=None, cost=None):
    """A table row by row; `sums`: whether each row's, then each column's, is known."""
    known = [number + 1 if flag else 0 for number, flag in enumerate(sums)]
    ends = np.array(
        [(known[r], known[rows + c]) for r in range(rows) for c in range(columns)], dtype=np.int64
    )
    size = rows * columns
    return Network(
        ends,
        np.array(hidden[:size]),
        np.zeros(size, dtype=bool) if fixed is None else np.array(fixed),
        np.ones(size) if cost is None else np.array(cost, dtype=float),
    )


def computed_exactly(ends: np.ndarray, hidden: np.ndarray) -> list[int]:
    """Cells without part in any direction that leaves all known sums as they are."""
    cells = np.flatnonzero(hidden)
    sums = np.zeros((int(ends.max()) + 1, len(cells)))
    for number, cell in enumerate(cells):
        for end in ends[cell]:
            sums[end, number] = 1
    sums = sums[1:]
    _, values, directions = np.linalg.svd(sums, full_matrices=True)
    rank = int((values > 1e-9).sum())
    free = directions[rank:]
    return [int(cell) for cell, part in zip(cells, free.T, strict=True)
            if not (np.abs(part) > 1e-9).any()]  # fmt: skip


tables = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.booleans(), min_size=sum(size), max_size=sum(size)),
        st.lists(st.booleans(), min_size=size[0] * size[1], max_size=size[0] * size[1]),
    )
)


@given(tables)
def test_a_cell_is_exposed_where_linear_algebra_computes_it(example) -> None:
    (rows, columns), sums, hidden = example
    made = network(rows, columns, sums, hidden)
    if made.hidden.any():
        exact = computed_exactly(made.ends, made.hidden)
        assert exposed_cells(made.ends, made.hidden).tolist() == exact


@given(tables)
def test_after_complements_nothing_is_computed(example) -> None:
    (rows, columns), sums, hidden = example
    made = network(rows, columns, sums, hidden)
    try:
        added = complement(made)
    except ReleaseError:
        assert 1 in (rows, columns)  # a sum of one cell is that cell
        return
    assert not made.hidden[added].any()
    after = made.hidden.copy()
    after[added] = True
    if after.any():
        assert computed_exactly(made.ends, after) == []


def test_the_cheapest_detour_is_taken() -> None:
    """Sums of 3 rows and 3 columns are known; one cell is hidden: three more close a square."""
    cost = [9, 1, 9, 1, 9, 1, 9, 1, 9]
    hidden = [True] + [False] * 8
    made = network(3, 3, [True] * 6, hidden, cost=cost)
    assert complement(made).tolist() == [1, 3, 4]


def test_cells_that_are_known_are_not_asked_to_hide() -> None:
    fixed = [False] * 9
    fixed[4] = True
    hidden = [True] + [False] * 8
    made = network(3, 3, [True] * 6, hidden, fixed=fixed)
    added = complement(made)
    assert len(added) == 3
    assert 4 not in added
    with pytest.raises(ReleaseError, match="can be computed"):
        complement(network(3, 3, [True] * 6, hidden, fixed=[not one for one in hidden]))


def test_the_fast_rule_gives_up_no_cell_for_a_sum_that_nobody_knows() -> None:
    """70 sums, each of a hidden cell and two shown ones; one hidden cell is in no other sum.

    All cells of the last sum are in unknown sums, too, so that a second one of it is hidden; of
    the other cells in unknown sums none is.
    """
    pairs = [(2 * n + 1, 2 * n + 2) for n in range(70) for _ in range(3)]
    last, other = 141, 142
    ends = np.array([*pairs, (0, last), (0, last), (0, other), (0, other)], dtype=np.int64)
    hidden = np.array([True, False, False] * 70 + [True, False, False, False])
    cost = np.array([1.0, 1.0, 2.0] * 70 + [1.0, 9.0, 0.1, 0.2])
    assert len(exposed_cells(ends, hidden)) > _MANY
    added = complement(Network(ends, hidden, np.zeros(len(ends), dtype=bool), cost))
    assert added.tolist() == [*range(1, 210, 3), 211]


def test_a_sparse_table_of_many_sums_takes_seconds() -> None:
    rows, columns = 20_000, 5
    rng = np.random.default_rng(0)
    hidden = (rng.random(rows * columns) < 0.6).tolist()
    made = network(rows, columns, [True] * (rows + columns), hidden, cost=rng.random(100_000))
    added = complement(made)
    after = made.hidden.copy()
    after[added] = True
    assert len(exposed_cells(made.ends, after)) == 0
