"""Sums over the index tensor against the same sums over the explicit matrix."""

import numpy as np
import pytest

from decoder.model.design_matrix import design_matrix, same_positions
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


@pytest.mark.parametrize("hashes", [1, 2])
def test_sums_over_no_candidate_are_zero(hashes):
    nobody = np.empty((0, 3, hashes), dtype=np.uint8)
    assert not bit_tensor.pair_sums(nobody, np.empty(0), BITS).any()
    assert bit_tensor.quadratic_sums(nobody, np.eye(3 * BITS), BITS).shape == (0,)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_positions_may_be_of_any_type(positions, dtype):
    """The cohorts that have reports are picked from a tensor of all."""
    apart = np.repeat(positions, 2, axis=1).astype(dtype)[:, ::2]
    weights, square = np.random.default_rng(5).random(M), np.eye(COHORTS * BITS)
    for sums, last in ((bit_tensor.pair_sums, weights), (bit_tensor.quadratic_sums, square)):
        assert (sums(apart, last, BITS) == sums(positions, last, BITS)).all()


def test_positions_take_the_bytes_that_the_sentinel_needs():
    widths = {255: np.uint8, 256: np.uint16, 2**16 - 1: np.uint16, 2**16: np.uint32}
    assert {k: bit_tensor.position_type(k).type for k in widths} == widths


def test_grouping_ignores_the_order_of_hashes():
    tensor = np.array(
        [[[0, 1], [2, 3]], [[1, 0], [3, 2]], [[0, 4], [2, 3]], [[0, 1], [2, 4]], [[4, 0], [3, 2]]],
        dtype=np.int16,
    )
    assert same_positions(tensor, 4).tolist() == [0, 0, 2, 3, 2]


def test_kernels_compile_where_no_folder_can_keep_them(monkeypatch):
    """A read-only installation without a home: numba finds no place for its cache."""
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])

    def fill(low, high, values):
        for i in range(low, high):
            values[i] = i

    values = np.zeros(3)
    bit_tensor.compiled(fill)(0, 3, values)
    assert values.tolist() == [0, 1, 2]
