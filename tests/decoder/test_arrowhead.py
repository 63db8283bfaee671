"""Matrices of diagonal blocks with a border, against dense algebra."""

import numpy as np
import pytest
from scipy import sparse

from decoder.numerics.arrowhead import Arrowhead


def arrowhead(size: int, filled: float) -> tuple[Arrowhead, np.ndarray]:
    """One of 5 blocks of `size` unknowns and a border of 6, in any order; and dense."""
    rng = np.random.default_rng(size)
    count, border = 5, 6
    blocks = rng.permutation(size * count + border)[: size * count].reshape(size, count)
    dense = rng.normal(size=(size * count + border,) * 2)
    dense[rng.random(dense.shape) > filled] = 0
    dense += dense.T
    owner = np.full(len(dense), -1)
    owner[blocks] = np.arange(count)
    apart = (owner[:, None] != owner) & (owner[:, None] >= 0) & (owner >= 0)
    dense[apart] = 0
    dense += np.diag(np.where(np.arange(len(dense)) % 3, 9.0, -9.0))
    return Arrowhead(sparse.csr_array(dense), blocks), dense


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("filled", [0.1, 0.9])
def test_all_is_as_of_dense_algebra(size: int, filled: float) -> None:
    found, dense = arrowhead(size, filled)
    rng = np.random.default_rng(9)
    inverse, values = np.linalg.inv(dense), rng.normal(size=(len(dense), 3))
    np.testing.assert_allclose(found.solve(values), inverse @ values, atol=1e-12)
    np.testing.assert_allclose(found.solve(values[:, 0]), inverse @ values[:, 0], atol=1e-12)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-10)
    left, right = rng.normal(size=(2, 4, len(dense))) * (rng.random((2, 4, len(dense))) < 0.4)
    forms = found.forms(sparse.csr_array(left), sparse.csr_array(right))
    for ours, (one, other) in zip(
        forms, ((left, left), (left, right), (right, right)), strict=True
    ):
        np.testing.assert_allclose(ours, np.diag(one @ inverse @ other.T), atol=1e-12)


@pytest.mark.parametrize("size", [1, 2])
def test_entries_of_the_inverse(size: int) -> None:
    """Within the border, between it and blocks in both orders, and within blocks."""
    found, dense = arrowhead(size, 0.5)
    inverse = np.linalg.inv(dense)
    border = np.setdiff1d(np.arange(len(dense)), found.blocks)[:5]
    rows = [*found.blocks, border, border[::-1]]
    for row in rows:
        for column in rows:
            np.testing.assert_allclose(
                found.inverse_at(row, column), inverse[row, column], atol=1e-12
            )
