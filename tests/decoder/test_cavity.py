"""The cavity is the leave-one-out estimate, and a list with nothing true names nothing."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from decoder.errors import ImproperError
from decoder.estimation import ep_iterations as rounds
from decoder.estimation import least_squares as gls
from decoder.estimation import leave_one_out as cavity
from decoder.estimation.ep_iterations import FitProblem, _cavity, _leave_one_out
from decoder.estimation.ep_sites import CUT_OFF, MIN_PRECISION, Scores, Sites
from decoder.estimation.estimate import Estimate
from decoder.estimation.least_squares import Balance
from decoder.estimation.leave_one_out import REFIT_TOLERANCE, fit_cavity
from decoder.inference.multiple_testing import decide
from decoder.model.noise import RandomString
from decoder.model.null_distribution import null_tail
from decoder.model.share_prior import SharePrior, fit_weights, flat_prior, ladder
from decoder.numerics.bit_tensor import mark_repeated

COHORTS, BITS, M = 10, 6, 7
RANDOM = RandomString(BITS, 2)


def asked(seed, cohorts, bits, shares, noise, error):
    """What is seen of shares (M,), and the columns; noise: stated variance, error: deviation."""
    rng, random = np.random.default_rng(seed), RandomString(bits, 2)
    drawn = rng.integers(0, bits, (len(shares), cohorts, 2), dtype=np.int16)
    positions, stated = mark_repeated(drawn, bits), noise * np.eye(bits)
    columns = gls.dense_columns(positions, bits) - random.mean
    seen = (columns @ shares).reshape(cohorts, bits) + error * rng.normal(size=(cohorts, bits))
    noises = np.broadcast_to(stated, (cohorts, bits, bits))
    return FitProblem(seen, positions, random, lambda _: noises), columns


@pytest.fixture
def problem():
    return asked(12, COHORTS, BITS, np.zeros(M), 0.01, 0.2)[0]


def solved(problem, make):
    """A solution by `make` with separate sites: their mean and variance, and the columns."""
    rng = np.random.default_rng(3)
    mean, variance = 0.1 * rng.random(M), 0.02 + 0.1 * rng.random(M)
    Z = gls.dense_columns(problem.positions, BITS) - RANDOM.mean
    target = (problem.centered.ravel() - Z @ mean).reshape(COHORTS, BITS)
    noise = problem.noise_of(mean)
    return make(noise, target, problem.positions, variance, RANDOM)(0.0), mean, variance, Z


@pytest.mark.parametrize("make", [gls.row_solver, gls.candidate_solver])
def test_scores_are_of_fits_without_the_candidate(problem, make):
    solution, mean, variance, Z = solved(problem, make)
    y = problem.centered.ravel()
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
    solution, mean, variance, Z = solved(problem, make)
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
    shares = np.where(np.arange(25) < 8, 0.1, 0.0)
    whole, columns = asked(5, 10, 6, shares, 2e-4, 0.014)
    with threadpool_limits(1):
        fit = fit_cavity(whole)
        tested = np.flatnonzero((fit.z > 1) & (shares == 0))
        assert len(tested)
        for i in tested:
            rest = replace(whole, positions=np.delete(whole.positions, i, axis=0))
            residual = fit_cavity(rest).last.fitted.solution.residual
            score = columns[:, i] @ residual.ravel()
            score /= np.sqrt(gls.null_variance(residual, RANDOM))
            expected = null_tail(residual, RANDOM).deviate(score)
            assert fit.tail.deviate(fit.z[i]) == pytest.approx(expected, abs=0.1)


def test_left_out_fits_have_own_null_distributions():
    """One cohort, an unlisted value of 50 %: p is the part of all strings that score as high."""
    bits, random = 64, RandomString(64, 2)
    noise, _ = asked(8, 1, bits, np.zeros(40), 1e-4, 0.01)
    unlisted = np.where(np.arange(bits) < 2, 0.5, 0) - random.mean
    whole = replace(noise, centered=noise.centered + unlisted)
    everyone = np.indices((bits, bits)).reshape(2, -1).T[:, None]
    everyone = gls.dense_columns(mark_repeated(everyone.astype(np.int16), bits), bits) - random.mean
    with threadpool_limits(1):
        fit = fit_cavity(whole)
        tested = np.flatnonzero(fit.z > 1)
        assert len(tested)
        for i in tested:
            rest = replace(whole, positions=np.delete(whole.positions, i, axis=0))
            last = rounds.run_ep(rest, tolerance=REFIT_TOLERANCE).last.fitted
            residual = last.solution.residual.ravel()
            column = gls.dense_columns(whole.positions[[i]], bits).ravel() - random.mean
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


@pytest.mark.parametrize("cohorts", [1, cavity.FEW_COHORTS, cavity.FEW_COHORTS + 1])
def test_few_cohorts_count_wrong_strings_with_care(cohorts: int) -> None:
    """By p-values above .5, too: few may be near 1 there. Also alongside another value."""
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


PRIOR = SharePrior(np.array([0.9, 0.05, 0.05]), np.array([1.0, 4.0]))
ERRORS = np.ones(5)
ESTIMATES = np.array([-1.0, 0.5, 2.0, 2.3, 4.5])  # 2.0 and 2.3: a share that may be 0 or large


def updated(least: float = MIN_PRECISION) -> Sites:
    scores = Scores(ESTIMATES, ERRORS)
    nothing = np.zeros(5)
    none = Sites(nothing, nothing, nothing > 0, nothing)
    return none.updated(scores, PRIOR, 5, full=True, frozen=False, least=least)


def test_cavity_and_site_make_the_posterior():
    sites, posterior = updated(), PRIOR.posterior(ESTIMATES, ERRORS)
    precision = 1 + 1 / sites.variance
    held = (sites.mean / sites.variance + ESTIMATES) / precision
    np.testing.assert_allclose(held, posterior.mean)
    matched = np.abs(1 / posterior.variance - 1) > CUT_OFF
    matched &= 1 / posterior.variance - 1 > MIN_PRECISION
    assert matched.sum() >= 3
    np.testing.assert_allclose(1 / precision[matched], posterior.variance[matched])


@pytest.mark.parametrize("least", [MIN_PRECISION, CUT_OFF])
def test_precisions_are_bounded_and_never_near_zero(least):
    precision = 1 / updated(least).variance
    assert precision.min() >= least - 1e-12
    assert np.abs(precision).min() >= CUT_OFF - 1e-12


@pytest.mark.parametrize("factor", [0.1, 0.02])
def test_clipped_sites_keep_the_posterior_mean(factor):
    """The errors shrink by a factor: the last precisions are far below what they may be now."""
    before, posterior = updated(), PRIOR.posterior(ESTIMATES, factor * ERRORS)
    scores = Scores(ESTIMATES, factor * ERRORS)
    after = before.updated(scores, PRIOR, 5, full=True, frozen=False)
    cavity, precision = factor**-2, 1 / after.variance
    at_bound = np.isclose(precision, MIN_PRECISION * cavity)
    at_bound |= np.isclose(np.abs(precision), CUT_OFF * cavity)
    held = (after.mean * precision + ESTIMATES * cavity) / (cavity + precision)
    np.testing.assert_allclose(held[at_bound], posterior.mean[at_bound])
    assert at_bound.any()


def test_posterior_by_quadrature():
    prior = SharePrior(np.array([0.6, 0.3, 0.1]), np.array([1.0, 2.5]))
    estimate, error = 1.7, 0.6

    def bump(share):
        parts = stats.norm.pdf(share, prior.centers, prior.spreads)
        return (prior.weights[1:] * parts).sum() * stats.norm.pdf(estimate, share, error)

    point = 0.6 * stats.norm.pdf(estimate, 0, error)
    mass, first, second = (
        integrate.quad(lambda s, n=n: s**n * bump(s), 0, 6, epsabs=1e-12)[0] for n in range(3)
    )
    total = point + mass
    posterior = prior.posterior(np.array([estimate]), np.array([error]))
    assert posterior.local_fdr[0] == pytest.approx(point / total, rel=1e-6)
    assert posterior.mean[0] == pytest.approx(first / total, rel=1e-6)
    assert posterior.variance[0] == pytest.approx(second / total - (first / total) ** 2, rel=1e-6)


def test_negative_estimates_show_no_large_share():
    """A bump of 5,000 standard errors, spread by 850: its tail below 0 is no share."""
    prior = SharePrior(np.array([0.9, 0.05, 0.05]), np.array([2.0, 5000.0]))
    estimates = np.linspace(-300, 3, 400)
    posterior = prior.posterior(estimates, np.ones(400))
    assert (np.diff(posterior.local_fdr) <= 1e-12).all()
    assert (posterior.local_fdr[estimates < -2] > 0.99).all()
    assert (np.abs(posterior.mean[estimates < -2]) < 0.1).all()


def test_held_shares_match_quadrature():
    prior = SharePrior(np.array([0.6, 0.3, 0.1]), np.array([1.0, 2.5]))
    estimates, limits = np.array([-1.0, 0.4, 1.7]), np.array([0.5, 0.8, 2.0])
    held_below = prior.held_below(estimates, np.full(3, 0.6), estimates / 0.6)

    def joint(share, estimate):
        parts = stats.norm.pdf(share, prior.centers, prior.spreads)
        return (prior.weights[1:] * parts).sum() * stats.norm.pdf(estimate, share, 0.6)

    for below, estimate, limit in zip(held_below(limits), estimates, limits, strict=True):
        under, total = (
            integrate.quad(joint, 0, end, args=(estimate,), epsabs=1e-13)[0] for end in (limit, 9)
        )
        assert below == pytest.approx(under / total, rel=1e-6)
    np.testing.assert_allclose(held_below(np.zeros(3)), 0, atol=1e-12)


def test_rows_are_independent_of_how_they_are_cut(monkeypatch):
    rng = np.random.default_rng(0)
    estimates, errors = rng.normal(size=50), rng.random(50) + 0.5
    prior = flat_prior(np.array([1.0, 2.0]))
    whole = prior.posterior(estimates, errors)
    monkeypatch.setattr("decoder.model.share_prior._ROWS", 7)
    for cut, uncut in zip(prior.posterior(estimates, errors), whole, strict=True):
        np.testing.assert_array_equal(cut, uncut)


@pytest.mark.statistical
def test_weight_of_zero_is_recovered():
    """6,000 estimates, 70 % of nothing: the fit is within .05 (about 5 standard deviations)."""
    rng = np.random.default_rng(4)
    shares = np.where(rng.random(6000) < 0.7, 0.0, 8.0)
    estimates, errors = shares + rng.normal(size=6000), np.ones(6000)
    prior = flat_prior(ladder(estimates, errors))
    fitted = fit_weights(prior, estimates, errors, estimates, np.ones(6000), 400)
    assert fitted.weights.sum() == pytest.approx(1.0)
    assert abs(fitted.weights[0] - 0.7) < 0.1
    near = (fitted.centers > 5) & (fitted.centers < 12)
    assert abs(fitted.weights[1:][near].sum() - 0.3) < 0.05


def test_heavy_null_tails_weaken_the_evidence_alone():
    prior = SharePrior(np.array([0.9, 0.1]), np.array([4.0]))
    estimate, error = np.array([4.0]), np.array([1.0])
    plain = prior.posterior(estimate, error)
    heavy = prior.posterior(estimate, error, np.array([2.0]))
    assert heavy.local_fdr[0] > 10 * plain.local_fdr[0]
    ratios = [p.mean[0] / (1 - p.local_fdr[0]) for p in (plain, heavy)]
    assert ratios[0] == pytest.approx(ratios[1])


@pytest.mark.parametrize("null_z", [1.4, -8.0])
def test_a_test_adds_no_evidence_to_an_estimate(null_z):
    """An estimate of .3 errors cannot tell 0 from a share, whatever the test's deviate."""
    prior = SharePrior(np.array([0.9, 0.1]), np.array([0.4]))
    estimate, error = np.array([0.3]), np.array([1.0])
    result = prior.posterior(estimate, error, np.array([null_z])).local_fdr
    plain = prior.posterior(estimate, error).local_fdr
    np.testing.assert_allclose(result, plain)
    assert plain[0] > 0.85
