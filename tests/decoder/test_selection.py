"""The LASSO is the LASSO: optimal over all columns, and scikit-learn's on the whole matrix."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from decoder.errors import ConvergenceError
from decoder.estimation import lasso_path as selection
from decoder.estimation.least_squares import dense_columns
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import mark_repeated

COHORTS, BITS, M = 8, 16, 900
RANDOM = RandomString(BITS, 2)


@pytest.fixture
def problem():
    rng = np.random.default_rng(6)
    positions = mark_repeated(rng.integers(0, BITS, (M, COHORTS, 2), dtype=np.int16), BITS)
    shares = np.zeros(M)
    shares[:12] = rng.random(12) / 6
    Z = dense_columns(positions, BITS) - RANDOM.mean
    centred = (Z @ shares).reshape(COHORTS, BITS) + 0.02 * rng.normal(size=(COHORTS, BITS))
    weights = 1 / (0.02 * (1 + rng.random((COHORTS, BITS)))) ** 2
    return centred, positions, weights, Z


def objective(centred, Z, weights, shares, penalty):
    residual = centred.ravel() - Z @ shares
    return 0.5 * (weights.ravel() * residual**2).sum() + penalty * shares.sum()


@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.5])
def test_the_objective_is_that_of_scikit_learn(problem, fraction):
    centred, positions, weights, Z = problem
    penalty = fraction * float((Z.T @ (weights * centred).ravel()).max())
    fit = selection.fit_lasso(centred, positions, weights, RANDOM, penalty)
    shares = np.zeros(M)
    shares[fit.selected] = fit.shares
    root = np.sqrt(weights).ravel()
    model = Lasso(alpha=penalty / len(root), positive=True, fit_intercept=False, tol=1e-12)
    model.set_params(max_iter=100_000).fit(root[:, None] * Z, root * centred.ravel())
    ours = objective(centred, Z, weights, shares, penalty)
    theirs = objective(centred, Z, weights, model.coef_, penalty)
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_optimality_conditions_hold_over_all_columns(problem):
    centred, positions, weights, Z = problem
    penalty = 0.1 * float((Z.T @ (weights * centred).ravel()).max())
    fit = selection.fit_lasso(centred, positions, weights, RANDOM, penalty)
    shares = np.zeros(M)
    shares[fit.selected] = fit.shares
    scores = Z.T @ (weights.ravel() * (centred.ravel() - Z @ shares))
    assert (scores <= penalty * (1 + 1e-6)).all()
    np.testing.assert_allclose(scores[fit.selected], penalty, rtol=1e-4)
    assert fit.largest_violation <= 1e-6


def test_a_large_penalty_selects_nothing(problem):
    centred, positions, weights, _ = problem
    fit = selection.fit_lasso(centred, positions, weights, RANDOM, 1e9)
    assert len(fit.selected) == len(fit.shares) == 0


def test_the_penalty_is_a_fraction_of_noise():
    weights = np.full((COHORTS, BITS), 25.0)
    rng = np.random.default_rng(9)
    positions = rng.integers(0, BITS, (4000, COHORTS, 2), dtype=np.int16)
    Z = dense_columns(mark_repeated(positions, BITS), BITS) - RANDOM.mean
    scores = Z.T @ (weights.ravel() * rng.normal(scale=0.2, size=COHORTS * BITS))
    one = selection.noise_penalty(weights, RANDOM, 100, 0.05)
    assert one / (0.5 * 3.2905) == pytest.approx(scores.std(), rel=0.35)
    assert selection.noise_penalty(weights, RANDOM, 1000, 0.05) > 1.4 * one


def test_a_fit_that_does_not_converge_raises(problem, monkeypatch):
    centred, positions, weights, _ = problem
    monkeypatch.setattr(selection, "_MAX_SWEEPS", 1)
    with pytest.raises(ConvergenceError, match="did not converge"):
        selection.fit_lasso(centred, positions, weights, RANDOM, 1.0)


def test_columns_enter_and_leave_until_none_gains(problem, monkeypatch):
    """Whatever the number of columns that the fit moves among, the minimum is the same."""
    centred, positions, weights, Z = problem
    penalty = 0.02 * float((Z.T @ (weights * centred).ravel()).max())
    fits = []
    for near in (7, 100, M):
        monkeypatch.setattr(selection, "_NEAR", near)
        fits.append(selection.fit_lasso(centred, positions, weights, RANDOM, penalty))
    few, some, everyone = fits
    assert len(everyone.selected) > 7
    for fit in (few, some):
        assert fit.selected.tolist() == everyone.selected.tolist()
        np.testing.assert_allclose(fit.shares, everyone.shares, rtol=1e-4, atol=1e-9)
        assert fit.largest_violation <= 1e-6
