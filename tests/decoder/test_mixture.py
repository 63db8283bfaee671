"""The prior's posterior against numerical integration, and its fit against a known mixture."""

import numpy as np
import pytest
from scipy import integrate, stats

from decoder.model.share_prior import SharePrior, fit_weights, flat_prior, ladder


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
    """A bump of 5,000 standard errors, spread by 850: its tail below 0 is no share.

    Before, the local fdr fell to .007 at -8 standard errors, and `fdr-eb` found a value at -210.
    """
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


def test_counts_stand_for_repeated_rows():
    estimates, errors = np.array([0.1, 3.0, -0.4]), np.ones(3)
    prior = flat_prior(ladder(estimates, errors))
    counted = fit_weights(prior, estimates, errors, estimates, np.array([5.0, 2.0, 1.0]), 10)
    rows = np.repeat(estimates, [5, 2, 1])
    repeated = fit_weights(prior, rows, np.ones(8), rows, np.ones(8), 10)
    np.testing.assert_allclose(counted.weights, repeated.weights, rtol=1e-12)


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
    told = prior.posterior(estimate, error, np.array([null_z])).local_fdr
    plain = prior.posterior(estimate, error).local_fdr
    np.testing.assert_allclose(told, plain)
    assert plain[0] > 0.85
