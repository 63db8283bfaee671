"""The numerics of flows, checked a second way: dense algebra, differences, expectations."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

from decoder.flows.fit import FlowData, FlowFit, fit_flows
from decoder.flows.moments import FlowMoments
from decoder.flows.space import Answers, FlowSpace, Gravity, SymbolCounts, answers_of
from decoder.numerics.arrowhead import Arrowhead
from rappor_core.metrics.flow import QUESTIONS
from tests.decoder.flow_support import flow_metric, noisy

SMALL = FlowSpace(
    zones=np.array([0, 0, 1]),
    bands=np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0]]),
    num_bands=4,
    meters=np.array([[0.0, 900.0, 1500.0], [900.0, 0.0, 2500.0], [1500.0, 2500.0, 0.0]]),
)


def small_fit(seed: int = 3) -> FlowFit:
    """A fit of three cells to answers that no counts made."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(SMALL.num_pairs, 0.5))
    answers = {}
    for name in QUESTIONS:
        shares = SMALL.sums(name) @ truth
        variance = rng.uniform(1e-5, 1e-4, len(shares))
        answers[name] = Answers(shares + rng.normal(0, np.sqrt(variance)), variance, 1000.0)
    gravity = Gravity(SMALL, np.zeros(SMALL.num_pairs))
    return fit_flows(gravity, FlowData.of(gravity, answers), np.zeros(gravity.size))


def dense(fit: FlowFit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior mean and covariance of (u, x - fit) by dense algebra, and T (P, n)."""
    pairs, size = len(fit.shares), fit.gravity.size
    entries = fit.gravity.incidence.toarray()
    tangent = fit.shares[:, None] * (entries - fit.shares @ entries)
    sums = np.vstack([np.eye(pairs), fit.data.sums.toarray()])
    seen = np.hstack([sums, sums @ tangent])
    noise = np.concatenate([fit.data.pair.variance, np.ones_like(fit.data.coarse)])
    shares = np.concatenate([fit.data.pair.shares, fit.data.coarse])
    prior = np.concatenate([1 / fit.noise.variance, fit.gravity.precision])
    center = np.concatenate([np.zeros(pairs), -fit.parameters])
    covariance = np.linalg.inv(np.diag(prior) + seen.T @ (seen / noise[:, None]))
    result = seen.T @ ((shares - sums @ fit.shares) / noise)
    assert covariance.shape == (pairs + size,) * 2
    return covariance @ (result + prior * center), covariance, tangent


def test_classes_are_those_of_the_device() -> None:
    flow = flow_metric().details
    space = FlowSpace.of(flow)
    for name in QUESTIONS:
        classes = space.classes(name)
        expected = [flow.class_of(name, *flow.split(index)) for index in range(space.num_pairs)]
        assert classes.tolist() == expected
        assert space.num_classes(name) == flow.num_classes(name)


def test_the_posterior_is_that_of_dense_algebra() -> None:
    fit = small_fit()
    mean, covariance, tangent = dense(fit)
    pairs = len(fit.shares)
    np.testing.assert_allclose(fit.departures, mean[:pairs], rtol=0, atol=5e-5)
    np.testing.assert_allclose(mean[pairs:], 0, atol=2e-3)  # the summit
    found = FlowMoments(fit).pairs
    both = covariance[:pairs, pairs:] @ tangent.T
    for ours, theirs in (
        (found.variance, np.diag(covariance[:pairs, :pairs])),
        (found.covariance, np.diag(both)),
        (found.gravity_variance, np.diag(tangent @ covariance[pairs:, pairs:] @ tangent.T)),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-16)


def test_the_cavity_takes_the_own_prior_out() -> None:
    fit = small_fit()
    estimate, error = FlowMoments(fit).pairs.cavity()
    for pair in (0, 7, 24):
        free = fit.noise.variance.copy()
        free[pair] = 1e9
        noise = replace(fit.noise, scale=free * len(free) / fit.tau)
        mean, covariance, tangent = dense(replace(fit, noise=noise))
        row = np.concatenate([np.eye(len(free))[pair], tangent[pair]])
        assert estimate[pair] == pytest.approx(fit.shares[pair] + row @ mean, abs=1e-5)
        assert error[pair] == pytest.approx(np.sqrt(row @ covariance @ row), rel=1e-4)


def test_many_zones_take_little_memory() -> None:
    """Dense covariances of 200 cells in 64 zones, with their factors, are 1 GB."""
    rng = np.random.default_rng(4)
    bands = rng.integers(1, 5, (200, 200))
    np.fill_diagonal(bands, 0)
    space = FlowSpace(
        np.arange(200) % 64, bands, 6, 1000.0 * bands + rng.integers(0, 999, (200, 200))
    )
    truth = rng.dirichlet(np.full(space.num_pairs, 0.5))
    answers = {}
    for name in QUESTIONS:
        shares = space.sums(name) @ truth
        answers[name] = Answers(shares, np.full(len(shares), 1e-5), 1000.0)
    gravity = Gravity(space, np.zeros(space.num_pairs))
    tracemalloc.start()
    try:
        fit = FlowFit.at(gravity, FlowData.of(gravity, answers), np.zeros(gravity.size), 1.0)
        moments = FlowMoments(fit)
        assert np.isfinite([fit.log_evidence, moments.pairs.variance.sum()]).all()
        assert np.isfinite(moments.of(space.sums("zones")).variance).all()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 400e6


def test_the_evidence_is_of_all_answers_together() -> None:
    """Log density of answers, normal about t0 with x and u integrated out; up to a constant."""
    fit = small_fit()
    pairs = len(fit.shares)

    def evidence(tau: float) -> tuple[float, float]:
        noise = replace(fit.noise, tau=tau)
        here = replace(fit, noise=noise)
        _, _, tangent = dense(here)
        data = fit.data
        errors = np.concatenate([np.sqrt(data.pair.variance), 1 / data.precision])
        sums = np.vstack([np.eye(len(fit.shares)), errors[pairs:, None] * data.sums.toarray()])
        spread = np.diag(noise.variance) + tangent @ np.diag(1 / fit.gravity.precision) @ tangent.T
        shares = np.concatenate([data.pair.shares, data.coarse / data.precision])
        center = sums @ (fit.shares - tangent @ fit.parameters)
        together = sums @ spread @ sums.T + np.diag(errors**2)
        found = stats.multivariate_normal.logpdf(shares, center, together)
        return here.log_evidence, float(found)

    (ours, theirs), (ours_too, theirs_too) = evidence(fit.tau), evidence(fit.tau * 1.02)
    assert ours - ours_too == pytest.approx(theirs - theirs_too, abs=2e-3)


@pytest.mark.parametrize("even", [True, False])
def test_answers_are_unbiased_whatever_is_expected(even: bool) -> None:
    """Over 200 draws of hashes and counts: z of 20 classes within 4.5 (false alarm 1 in 7,000);
    the stated variance is that of the draws, and neither .85 nor 1.15 times it."""
    rng = np.random.default_rng(11 + even)
    truth = rng.dirichlet(np.full(20, 0.3))
    guess = np.full(20, 1 / 20) if even else rng.dirichlet(np.ones(20))
    doubt = float(np.sum((truth - guess) ** 2))
    shares, variances, unknown = [], [], []
    for _ in range(200):
        symbols = rng.integers(0, 8, (10, 20))
        layout = SymbolCounts(np.zeros((10, 8)), symbols, 20, 0.51, 0.07)
        people = rng.multinomial(300, truth, 10)
        rows = [noisy(layout, cohort, people[cohort], rng) for cohort in range(10)]
        one = answers_of(replace(layout, counts=np.array(rows, dtype=float)), guess)
        known = answers_of(replace(layout, counts=np.array(rows, dtype=float)), guess, doubt)
        np.testing.assert_array_equal(one.shares, known.shares)
        shares.append(one.shares)
        variances.append(known.variance)
        unknown.append(one.variance)
    stated = np.mean(variances, axis=0)
    z = (np.mean(shares, axis=0) - truth) / np.sqrt(stated / 200)
    assert np.abs(z).max() < 4.5
    assert 0.85 < np.var(shares, axis=0, ddof=1).mean() / stated.mean() < 1.15
    assert 0.9 < np.mean(unknown) / stated.mean() < 1.2


def test_distance_is_told_within_a_band() -> None:
    """Between other cells alone, as a logarithm, of mean 0 in each band."""
    found = SMALL.distance.reshape(5, 5)
    assert not found[3:].any()
    assert not found[:, 3:].any()
    assert not np.diag(found).any()
    assert found[0, 2] - found[1, 2] == pytest.approx(np.log(1500 / 2500))
    assert found[0, 2] + found[1, 2] == pytest.approx(0)
    assert found[0, 1] == 0
    slope = np.zeros(Gravity(SMALL, np.zeros(25)).size)
    slope[3 * 5 + 4] = -2.0
    shares = Gravity(SMALL, np.zeros(25)).shares(slope).reshape(5, 5)
    assert shares[0, 2] / shares[1, 2] == pytest.approx((2500 / 1500) ** 2)


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
