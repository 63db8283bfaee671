"""Sums over the index tensor against the same sums over the explicit matrix."""

import numpy as np
import pytest

from decoder.model.counts import design_matrix
from decoder.numerics import bit_tensor

M, COHORTS, BITS = 40, 11, 7  # more than one tile of rows


@pytest.fixture(params=[1, 3])
def positions(request):
    rng, hashes = np.random.default_rng(3), request.param
    return bit_tensor.mark_repeated(
        rng.integers(0, BITS, (M, COHORTS, hashes), dtype=np.int16), BITS
    )


@pytest.fixture
def matrix(positions):
    return design_matrix(positions, BITS).toarray()


def test_repeated_positions_set_one_bit():
    raw = np.array([[[2, 2, 5], [0, 1, 0]]], dtype=np.int16)
    marked = bit_tensor.mark_repeated(raw, 6)
    assert marked.tolist() == [[[2, 6, 5], [0, 1, 6]]]
    assert design_matrix(marked, 6).toarray().max() == 1.0


def test_gather_is_the_transposed_matrix(positions, matrix):
    values = np.random.default_rng(0).normal(size=(COHORTS, BITS))
    np.testing.assert_allclose(
        bit_tensor.gather_sums(positions, values), matrix.T @ values.ravel(), atol=1e-12
    )


def test_scatter_is_the_matrix(positions, matrix):
    weights = np.random.default_rng(1).normal(size=M)
    weights[:5] = 0.0
    np.testing.assert_allclose(
        bit_tensor.scatter_sums(positions, weights, BITS).ravel(), matrix @ weights, atol=1e-12
    )


def test_pair_sums_are_the_weighted_gram_matrix(positions, matrix):
    weights = np.random.default_rng(2).random(M)
    expected = (matrix * weights) @ matrix.T
    np.testing.assert_allclose(bit_tensor.pair_sums(positions, weights, BITS), expected, atol=1e-12)
    blocks = bit_tensor.block_pair_sums(positions, weights, BITS)
    for cohort in range(COHORTS):
        own = slice(cohort * BITS, (cohort + 1) * BITS)
        np.testing.assert_allclose(blocks[cohort], expected[own, own], atol=1e-12)


def test_quadratic_sums_are_the_diagonal_of_the_sandwich(positions, matrix):
    root = np.random.default_rng(4).normal(size=(COHORTS * BITS, COHORTS * BITS))
    symmetric = root @ root.T
    np.testing.assert_allclose(
        bit_tensor.quadratic_sums(positions, symmetric, BITS),
        np.einsum("ri,rs,si->i", matrix, symmetric, matrix),
        rtol=1e-10,
    )


def test_kernels_compile_where_no_folder_can_keep_them(monkeypatch):
    """A read-only installation without a home: numba finds no place for its cache."""
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])

    def fill(low, high, values):
        for i in range(low, high):
            values[i] = i

    values = np.zeros(3)
    bit_tensor.compiled(fill)(0, 3, values)
    assert values.tolist() == [0, 1, 2]
