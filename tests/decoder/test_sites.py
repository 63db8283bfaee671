"""Sites: the Gaussian that turns a cavity into its posterior, also where that is the wider one."""

import numpy as np
import pytest

from decoder.estimation.ep_sites import CUT_OFF, MIN_PRECISION, Scores, Sites
from decoder.model.share_prior import SharePrior

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


def test_uncertain_shares_have_sites_that_widen():
    posterior = PRIOR.posterior(ESTIMATES, ERRORS)
    np.testing.assert_array_equal(updated().variance < 0, posterior.variance > 1)
    assert (posterior.variance > 1).any()


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
