"""Two routes to the same solve, and both against plain linear algebra."""

import numpy as np
import pytest

from decoder.errors import ConvergenceError, ImproperError
from decoder.estimation import least_squares as gls
from decoder.estimation.least_squares import refit, solver_in_rows
from decoder.model.counts import design_matrix
from decoder.model.noise import RandomString
from decoder.numerics import bit_tensor
from decoder.numerics.bit_tensor import mark_repeated

COHORTS, BITS, M = 6, 5, 8
RANDOM = RandomString(BITS, 2)


@pytest.fixture
def problem():
    rng = np.random.default_rng(2)
    positions = mark_repeated(rng.integers(0, BITS, (M, COHORTS, 2), dtype=np.int16), BITS)
    roots = rng.normal(size=(COHORTS, BITS, BITS)) + 3 * np.eye(BITS)
    noise = roots @ roots.transpose(0, 2, 1)
    return noise, rng.normal(size=(COHORTS, BITS)), positions, rng.random(M)


def covariance(noise, positions, variances, tau):
    V = np.zeros((COHORTS * BITS, COHORTS * BITS))
    for j in range(COHORTS):
        own = slice(j * BITS, (j + 1) * BITS)
        V[own, own] = noise[j] + tau * RANDOM.covariance_matrix
    Z = gls.dense_columns(positions, BITS) - RANDOM.mean
    return V + (Z * variances) @ Z.T, Z


@pytest.mark.parametrize("make", [gls.row_solver, gls.candidate_solver])
@pytest.mark.parametrize("tau", [0.0, 0.7])
@pytest.mark.parametrize("widening", [0, 3])
def test_solvers_agree_with_dense_algebra(problem, make, tau, widening):
    noise, target, positions, variances = problem
    known = make(noise, target, positions, variances, RANDOM)(0.7).information
    variances[:widening] = -2 / known[:widening] - variances[:widening]
    V, Z = covariance(noise, positions, variances, tau)
    inverse = np.linalg.inv(V)
    solution = make(noise, target, positions, variances, RANDOM)(tau)
    np.testing.assert_allclose(solution.residual.ravel(), inverse @ target.ravel(), atol=1e-9)
    np.testing.assert_allclose(solution.information, np.diag(Z.T @ inverse @ Z), rtol=1e-8)
    expected = sum(
        np.trace(RANDOM.covariance_matrix @ inverse[j : j + BITS, j : j + BITS])
        for j in range(0, COHORTS * BITS, BITS)
    )
    assert solution.expected == pytest.approx(expected)


@pytest.mark.parametrize("make", [gls.row_solver, gls.candidate_solver])
def test_sites_without_a_proper_posterior_are_refused(problem, make):
    noise, target, positions, variances = problem
    variances[2] = -1e-6  # a precision of minus a million
    with pytest.raises(ImproperError, match="not positive definite"):
        make(noise, target, positions, variances, RANDOM)(0.0)


def test_null_variance_is_that_of_random_positions(problem):
    """Over all strings that set two hashes in one cohort: exact, by enumeration."""
    _, target, _, _ = problem
    pairs = [(a, b) for a in range(BITS) for b in range(BITS)]
    variance = sum(np.var([row[list({*pair})].sum() for pair in pairs]) for row in target)
    assert gls.null_variance(target, RANDOM) == pytest.approx(variance)


def test_balance_finds_tau_alone(problem):
    noise, target, positions, variances = problem
    solve = gls.row_solver(noise, 40 * target, positions, variances, RANDOM)
    balanced = gls.balance(solve, RANDOM, 0.0, 40)
    assert balanced.missing > 0
    assert balanced.ratio == pytest.approx(1.0, abs=0.005)
    open_ = gls.balance(solve, RANDOM, 0.0, 0)
    assert open_.missing == 0
    assert open_.excess == open_.ratio > 2
    calm = gls.row_solver(noise, 0.01 * target, positions, variances, RANDOM)
    quiet = gls.balance(calm, RANDOM, 0.0, 9)
    assert (quiet.missing, quiet.excess) == (0.0, 1.0)
    assert quiet.ratio < 0.1


def test_refit_is_generalized_least_squares(problem):
    noise, target, positions, _ = problem
    _, Z = covariance(noise, positions[:3], np.zeros(3), 0.0)
    fitted = refit(noise, target, Z, RANDOM)
    V, _ = covariance(noise, positions[:3], np.zeros(3), fitted.balance.missing)
    inverse = np.linalg.inv(V)
    expected = np.linalg.solve(Z.T @ inverse @ Z, Z.T @ inverse @ target.ravel())
    np.testing.assert_allclose(fitted.shares, expected, atol=1e-9)
    np.testing.assert_allclose(fitted.covariance, np.linalg.inv(Z.T @ inverse @ Z), atol=1e-9)


def test_an_improper_covariance_raises(problem):
    noise, target, positions, variances = problem
    with pytest.raises(ConvergenceError, match="not positive definite"):
        gls.row_solver(-noise, target, positions, variances, RANDOM)(0.0)


@pytest.mark.parametrize("tau", [0.0, 0.7])
@pytest.mark.parametrize("widening", [0, 3])
def test_two_symbols_are_solved_in_their_contrasts(tau, widening):
    rng, random = np.random.default_rng(5), RandomString(2, 1)
    positions = rng.integers(0, 2, (12, COHORTS, 1), dtype=np.uint8)
    own, between, variances = rng.random(COHORTS) + 1, -rng.random(COHORTS), rng.random(12)
    noise = np.stack([own, between, between, own], axis=1).reshape(COHORTS, 2, 2)
    known = gls.row_solver(noise, np.zeros((COHORTS, 2)), positions, variances, random)(0.7)
    variances[:widening] = -2 / known.information[:widening] - variances[:widening]
    given = noise, rng.normal(size=(COHORTS, 2)), positions, variances, random
    halved, rows = solver_in_rows(*given), gls.row_solver(*given)
    assert halved.__qualname__.startswith("contrast_solver")
    ours, theirs = halved(tau), rows(tau)
    for one, other in zip(ours[:3], theirs[:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    columns = rng.normal(size=(2 * COHORTS, 4))
    np.testing.assert_allclose(ours.weigh(columns), theirs.weigh(columns), atol=1e-12)


def test_repeated_positions_set_one_bit():
    raw = np.array([[[2, 2, 5], [0, 1, 0]]], dtype=np.int16)
    marked = bit_tensor.mark_repeated(raw, 6)
    assert marked.tolist() == [[[2, 6, 5], [0, 1, 6]]]
    assert design_matrix(marked, 6).toarray().max() == 1.0


def test_kernels_compile_where_no_folder_can_keep_them(monkeypatch):
    """A read-only installation without a home: numba finds no place for its cache."""
    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl._locator_classes", [])

    def fill(low, high, values):
        for i in range(low, high):
            values[i] = i

    values = np.zeros(3)
    bit_tensor.compiled(fill)(0, 3, values)
    assert values.tolist() == [0, 1, 2]
