"""The cavity is the leave-one-out estimate, and a list with nothing true names nothing."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from decoder.errors import ImproperError
from decoder.estimation import ep_iterations as rounds
from decoder.estimation import least_squares as gls
from decoder.estimation import leave_one_out as cavity
from decoder.estimation.ep_iterations import FitProblem, _cavity, _leave_one_out
from decoder.estimation.ep_sites import DAMPING, Sites
from decoder.estimation.estimate import Estimate
from decoder.estimation.least_squares import Balance
from decoder.estimation.leave_one_out import REFIT_TOLERANCE, fit_cavity
from decoder.inference.multiple_testing import decide
from decoder.model.noise import RandomString
from decoder.model.null_distribution import null_tail
from decoder.numerics.bit_tensor import mark_repeated

COHORTS, BITS, M = 10, 6, 7
RANDOM = RandomString(BITS, 2)


@pytest.fixture
def problem():
    rng = np.random.default_rng(12)
    positions = mark_repeated(rng.integers(0, BITS, (M, COHORTS, 2), dtype=np.int16), BITS)
    noise = np.broadcast_to(0.01 * np.eye(BITS), (COHORTS, BITS, BITS))
    target = 0.2 * rng.normal(size=(COHORTS, BITS))
    return FitProblem(target, positions, RANDOM, lambda _: noise)


@pytest.mark.parametrize("make", [gls.row_solver, gls.candidate_solver])
def test_scores_are_of_fits_without_the_candidate(problem, make):
    rng = np.random.default_rng(3)
    mean, variance = 0.1 * rng.random(M), 0.02 + 0.1 * rng.random(M)
    Z = gls.dense_columns(problem.positions, BITS) - RANDOM.mean
    noise, y = problem.noise_of(mean), problem.centered.ravel()
    target = (y - Z @ mean).reshape(COHORTS, BITS)
    solution = make(noise, target, problem.positions, variance, RANDOM)(0.0)
    sites = Sites(mean, variance, np.ones(M, dtype=bool), mean)
    fitted = Balance(solution, 0.0, 1.0)
    scores = _leave_one_out(problem, fitted, sites, _cavity(fitted, sites))
    for i in range(M):
        others = np.arange(M) != i
        V = 0.01 * np.eye(y.size) + (Z[:, others] * variance[others]) @ Z[:, others].T
        weighted = np.linalg.solve(V, Z[:, i])
        information = weighted @ Z[:, i]
        rest = y - Z[:, others] @ mean[others]
        assert scores.estimates[i] == pytest.approx(weighted @ rest / information, rel=1e-6)
        assert scores.std_errors[i] == pytest.approx(information**-0.5, rel=1e-6)


@pytest.mark.parametrize("make", [gls.row_solver, gls.candidate_solver])
def test_left_out_scores_use_residuals_without_the_candidate(problem, make):
    """The exact null deviation of z_i' V_-i^-1 (y - Z_-i m_-i), by dense algebra."""
    rng = np.random.default_rng(3)
    mean, variance = 0.1 * rng.random(M), 0.02 + 0.1 * rng.random(M)
    Z = gls.dense_columns(problem.positions, BITS) - RANDOM.mean
    target = (problem.centered.ravel() - Z @ mean).reshape(COHORTS, BITS)
    solution = make(problem.noise_of(mean), target, problem.positions, variance, RANDOM)(0.0)
    shares = mean + variance * (Z.T @ solution.residual.ravel())
    directions = solution.weigh(Z) / (1 - variance * solution.information)
    scores = gls.left_out_scores(solution.residual, Z, directions, shares, RANDOM)
    C = np.kron(np.eye(COHORTS), RANDOM.covariance_matrix)
    for i in range(M):
        others = np.arange(M) != i
        V = 0.01 * np.eye(Z.shape[0]) + (Z[:, others] * variance[others]) @ Z[:, others].T
        without = np.linalg.solve(V, problem.centered.ravel() - Z[:, others] @ mean[others])
        expected = Z[:, i] @ without / np.sqrt(without @ C @ without)
        assert scores[i] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("may_be_full", [True, False])
def test_left_out_fits_equal_those_of_shorter_lists(problem, may_be_full):
    """No copy of the tensor is made; what is left out has no part in a fit."""
    left, problem = np.array([1, 4]), replace(problem, may_be_full=may_be_full)
    masked, kept = cavity._without(problem, left), np.delete(np.arange(M), left)
    shorter = replace(problem, positions=problem.positions[kept])
    ours, theirs = rounds.run_ep(masked), rounds.run_ep(shorter)
    assert masked.positions is problem.positions
    assert ours.iterations == theirs.iterations
    assert ours.last.scores.z == pytest.approx(theirs.last.scores.z, rel=1e-12)
    assert ours.last.sites.active.tolist() == theirs.last.sites.active.tolist()


def test_few_rows_have_scores_of_unseen_fits():
    """Against a fit from the start on the shorter list, with its own prior: z within .1."""
    rng, cohorts, bits, count = np.random.default_rng(5), 10, 6, 25
    random, noise = RandomString(bits, 2), np.broadcast_to(2e-4 * np.eye(bits), (10, bits, bits))
    positions = mark_repeated(rng.integers(0, bits, (count, cohorts, 2), dtype=np.int16), bits)
    columns = gls.dense_columns(positions, bits) - random.mean
    shares = np.where(np.arange(count) < 8, 0.1, 0.0)
    seen = (columns @ shares).reshape(cohorts, bits) + 0.014 * rng.normal(size=(cohorts, bits))
    asked = FitProblem(seen, positions, random, lambda _: noise)
    with threadpool_limits(1):
        fit = fit_cavity(asked)
        tested = np.flatnonzero((fit.z > 1) & (shares == 0))
        assert len(tested)
        for i in tested:
            rest = replace(asked, positions=np.delete(positions, i, axis=0))
            residual = fit_cavity(rest).last.fitted.solution.residual
            score = columns[:, i] @ residual.ravel()
            score /= np.sqrt(gls.null_variance(residual, random))
            expected = null_tail(residual, random).deviate(score)
            assert fit.tail.deviate(fit.z[i]) == pytest.approx(expected, abs=0.1)


def test_left_out_fits_have_own_null_distributions():
    """One cohort, an unlisted value of 50 %: p is the part of all strings that score as high."""
    rng, bits, count = np.random.default_rng(8), 64, 40
    random, noise = RandomString(bits, 2), np.broadcast_to(1e-4 * np.eye(bits), (1, bits, bits))
    positions = mark_repeated(rng.integers(0, bits, (count, 1, 2), dtype=np.int16), bits)
    seen = 0.01 * rng.normal(size=(1, bits)) + np.where(np.arange(bits) < 2, 0.5, 0)
    asked = FitProblem(seen - random.mean, positions, random, lambda _: noise)
    everyone = np.indices((bits, bits)).reshape(2, -1).T[:, None]
    everyone = gls.dense_columns(mark_repeated(everyone.astype(np.int16), bits), bits) - random.mean
    with threadpool_limits(1):
        fit = fit_cavity(asked)
        tested = np.flatnonzero(fit.z > 1)
        assert len(tested)
        for i in tested:
            rest = replace(asked, positions=np.delete(positions, i, axis=0))
            last = rounds.run_ep(rest, tolerance=REFIT_TOLERANCE).last.fitted
            residual = last.solution.residual.ravel()
            column = gls.dense_columns(positions[[i]], bits).ravel() - random.mean
            score = column @ residual * last.slack
            reached = (everyone.T @ residual > score - 1e-6 * residual.std()).mean()
            assert norm.sf(fit.tail.deviate(fit.z[i])) == pytest.approx(reached, rel=0.02)


def test_sites_without_proper_posteriors_are_cut_off(problem, monkeypatch):
    """The round is then the same as with positive sites from the beginning."""
    now = rounds.run_ep(problem, most=2).last
    solve, tried = rounds._solve, []

    def improper_at_first(*arguments):
        tried.append(arguments)
        if len(tried) == 1:
            raise ImproperError("not positive definite")
        return solve(*arguments)

    monkeypatch.setattr(rounds, "_solve", improper_at_first)
    found = rounds._next(problem, now, 3, refresh_noise=False, lag=False)
    monkeypatch.setattr(rounds, "MIN_PRECISION", rounds.CUT_OFF)
    monkeypatch.setattr(rounds, "_solve", solve)
    expected = rounds._next(problem, now, 3, refresh_noise=False, lag=False)
    assert len(tried) == 2
    np.testing.assert_array_equal(found.scores.z, expected.scores.z)


@pytest.fixture
def crowded():
    """16 cohorts of 10 bits, 300 candidates: 60 are held, and the fit uses up much of the rows."""
    rng, cohorts, bits, count = np.random.default_rng(21), 16, 10, 300
    random, noise = RandomString(bits, 2), np.broadcast_to(1e-4 * np.eye(bits), (16, bits, bits))
    positions = mark_repeated(rng.integers(0, bits, (count, cohorts, 2), dtype=np.int16), bits)
    shares = np.where(np.arange(count) < 60, 0.94 ** np.arange(count), 0.0) / 16
    columns = gls.dense_columns(positions, bits) - random.mean
    seen = (columns @ shares).reshape(cohorts, bits) + 0.01 * rng.normal(size=(cohorts, bits))
    with threadpool_limits(1):
        yield FitProblem(seen, positions, random, lambda _: noise)


def unconverged(*, full: bool, asked: list[FitProblem] | None = None):
    """`run_ep` with fits that do not converge: those of all candidates, or every one."""

    def fit(problem, *arguments, **limits):
        if asked is not None:
            asked.append(problem)
        found = rounds.run_ep(problem, *arguments, **limits)
        return found._replace(converged=found.converged and full and not problem.full)

    return fit


def test_a_fit_that_has_not_converged_is_told(crowded, monkeypatch):
    asked = []
    monkeypatch.setattr(cavity, "run_ep", unconverged(full=False, asked=asked))
    monkeypatch.setattr(cavity, "_doubtful", lambda *_: np.zeros(0, dtype=np.intp))
    assert not fit_cavity(crowded).converged
    assert {(one.full, one.damping < DAMPING) for one in asked} == {
        (full, slower) for full in (True, False) for slower in (True, False)
    }


@pytest.mark.parametrize("cohorts", [1, cavity.FEW_COHORTS, cavity.FEW_COHORTS + 1])
def test_few_cohorts_count_wrong_strings_with_care(cohorts: int) -> None:
    """By p-values above .5, too: few may be near 1 there. Also alongside a value of its own."""
    ones = np.ones(40)
    scores = np.where(np.arange(40) < 8, 2.9, -0.1)
    columns = [ones, ones, scores, ones, ones, ones, ones]
    estimate = Estimate(*columns, None, np.zeros((cohorts, 4)), 1.0)
    p = estimate.p_values
    for apart in (0, 1):
        alone = np.arange(40) >= 40 - apart
        found = decide(
            p, estimate.local_fdr, "fdr", 0.05, null_p=estimate.null_p_values, alone=alone,
            careful=estimate.has_few_cohorts,
        )  # fmt: skip
        by_bh = decide(p, estimate.local_fdr, "bh", 0.05, alone=alone).adjusted[:8]
        share = (33 - apart) / 20 if cohorts <= cavity.FEW_COHORTS else 1 / 4
        assert found.adjusted[:8] == pytest.approx(by_bh * share * 40 / (40 - apart))
    assert not replace(estimate, method="direct").has_few_cohorts
