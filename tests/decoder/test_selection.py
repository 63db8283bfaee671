"""The LASSO is scikit-learn's on the whole matrix; what it selects is scored without itself."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from decoder.errors import ConvergenceError
from decoder.estimation import lasso as selection
from decoder.estimation.ep_iterations import FitProblem
from decoder.estimation.estimate import by_lasso
from decoder.estimation.lasso import select
from decoder.estimation.least_squares import dense_columns
from decoder.model.counts import Observed, debias
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.numerics.bit_tensor import mark_repeated, one_thread
from simulations.experiments.calibration import noisy_counts, shares_of

COHORTS, BITS, M = 8, 16, 900
RANDOM = RandomString(BITS, 2)


@pytest.fixture
def problem():
    rng = np.random.default_rng(6)
    positions = mark_repeated(rng.integers(0, BITS, (M, COHORTS, 2), dtype=np.int16), BITS)
    shares = np.zeros(M)
    shares[:12] = rng.random(12) / 6
    Z = dense_columns(positions, BITS) - RANDOM.mean
    centered = (Z @ shares).reshape(COHORTS, BITS) + 0.02 * rng.normal(size=(COHORTS, BITS))
    weights = 1 / (0.02 * (1 + rng.random((COHORTS, BITS)))) ** 2
    return centered, positions, weights, Z


def objective(centered, Z, weights, shares, penalty):
    residual = centered.ravel() - Z @ shares
    return 0.5 * (weights.ravel() * residual**2).sum() + penalty * shares.sum()


@pytest.mark.parametrize(("fraction", "entering"), [(0.02, 7), (0.1, 100), (0.5, 512)])
def test_the_objective_is_that_of_scikit_learn(problem, monkeypatch, fraction, entering):
    monkeypatch.setattr(selection, "_MAX_ENTERING", entering)
    centered, positions, weights, Z = problem
    penalty = fraction * float((Z.T @ (weights * centered).ravel()).max())
    fit = selection.fit_lasso(centered, positions, weights, RANDOM, penalty)
    shares = np.zeros(M)
    shares[fit.selected] = fit.shares
    root = np.sqrt(weights).ravel()
    model = Lasso(alpha=penalty / len(root), positive=True, fit_intercept=False, tol=1e-12)
    model.set_params(max_iter=100_000).fit(root[:, None] * Z, root * centered.ravel())
    ours = objective(centered, Z, weights, shares, penalty)
    theirs = objective(centered, Z, weights, model.coef_, penalty)
    assert ours == pytest.approx(theirs, rel=1e-8)


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
    centered, positions, weights, _ = problem
    monkeypatch.setattr(selection, "_MAX_SWEEPS", 1)
    with pytest.raises(ConvergenceError, match="did not converge"):
        selection.fit_lasso(centered, positions, weights, RANDOM, 1.0)


NOISE = BitNoise(1.0, 0.0, 0.775, 0.225)


def drawn(seed, cohorts, bits, wrong, listed=0, values=100):
    """Reports of 100 values; a list of `listed` of them and of wrong strings."""
    rng = np.random.default_rng(seed)
    shares = shares_of(("uniform", "exp", "gauss", "zipf1", "zipf1.5")[seed % 5], values)
    drawn = rng.integers(0, bits, (values + wrong, cohorts, 2), dtype=np.int16)
    positions = mark_repeated(drawn, bits)
    reports = np.full(cohorts, 1_000_000 // cohorts)
    holders = rng.multinomial(reports, shares)
    counts = noisy_counts(rng, positions[:values], holders, reports, NOISE, bits)
    reports = reports.astype(float)
    noise = CohortNoise(NOISE, RandomString(bits, 2), reports, 1.0)
    return Observed(debias(counts, reports, NOISE), positions[values - listed :], noise)


@pytest.mark.parametrize("listed", [0, 90])
def test_one_cohort_of_few_bits_is_answered(listed):
    """100 candidates of 16 bits are sums of one another: a third had no proper covariance."""
    for seed in range(12):
        with one_thread():
            estimate = by_lasso(drawn(seed, 1, 16, 100 - listed, listed), 0.95, 0.05)
        assert np.isfinite(estimate.std_errors).all()
        assert (estimate.std_errors > 0).all()


def test_left_out_candidates_never_take_part():
    observed = drawn(3, 16, 8, 60, 60)
    random = observed.noise.random
    problem = FitProblem(observed.centered, observed.positions, random, observed.noise_of)
    chosen = select(problem, 0.05)
    weights = 1 / np.einsum("jbb->jb", chosen.noise)
    i = int(chosen.members[0])
    data = observed.centered, observed.positions, weights, random, chosen.fit.penalty
    start = chosen.fit.selected, chosen.fit.shares
    others = start[0] != i
    near = selection.fit_lasso(*data, start=(start[0][others], start[1][others]), left_out=i)
    rest = np.arange(len(observed.positions)) != i
    alone = selection.fit_lasso(observed.centered, observed.positions[rest], *data[2:])
    assert i not in near.selected
    assert near.selected.tolist() == np.flatnonzero(rest)[alone.selected].tolist()
    np.testing.assert_allclose(near.shares, alone.shares, rtol=1e-4, atol=1e-9)
