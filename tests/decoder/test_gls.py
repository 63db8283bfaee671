"""Two routes to the same solve, and both against plain linear algebra."""

import numpy as np
import pytest

from decoder.errors import ConvergenceError, ImproperError
from decoder.estimation import least_squares as gls
from decoder.estimation.least_squares import refit, solver_in_rows
from decoder.model.noise import RandomString
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
    """Also where some sites have a negative precision, half of what the data say of them."""
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


def test_nobody_active_is_allowed(problem):
    noise, target, positions, _ = problem
    solution = gls.candidate_solver(noise, target, positions[:0], np.empty(0), RANDOM)(0.0)
    np.testing.assert_allclose(solution.residual[0], np.linalg.solve(noise[0], target[0]))


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
    """The same as in the rows, also for what has a part along the sums."""
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


@pytest.mark.parametrize(("bits", "hashes"), [(2, 1), (2, 2), (3, 1)])
def test_other_cohorts_are_solved_in_their_rows(bits, hashes):
    """Bits of their own noise, of several hashes, and more than two symbols."""
    rng, random = np.random.default_rng(6), RandomString(bits, hashes)
    positions = rng.integers(0, bits, (9, COHORTS, hashes), dtype=np.uint8)
    positions = mark_repeated(positions, bits)
    noise = np.tile(np.diag(np.arange(1.0, bits + 1)), (COHORTS, 1, 1))
    if hashes > 1:
        noise = np.tile(np.eye(bits), (COHORTS, 1, 1))
    target = np.zeros((COHORTS, bits))
    solver = solver_in_rows(noise, target, positions, np.ones(9), random)
    assert solver.__qualname__.startswith("row_solver")
