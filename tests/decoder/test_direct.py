"""One bit a value: score intervals invert the test and cover."""

import numpy as np
import pytest
from scipy.stats import norm

from decoder.estimation.estimate import fit_direct
from decoder.model.noise import BitNoise

NOISE = BitNoise(0.875, 0.125, 0.75, 0.25)


def test_interval_ends_are_where_the_test_just_accepts():
    reports = np.array([300.0, 200.0])
    fit = fit_direct(np.array([[0.2], [0.3]]), reports, NOISE, 1.0, 0.95)
    assert fit.estimates[0] == pytest.approx(0.24)
    for end in (fit.low[0], fit.high[0]):
        chance = NOISE.p_star + NOISE.gap * end
        error = np.sqrt(chance * (1 - chance) / 500) / NOISE.gap
        assert abs(0.24 - end) / error == pytest.approx(norm.isf(0.025))


def test_repeated_reports_widen_intervals():
    shares, reports = np.array([[0.4]]), np.array([1000.0])
    once = fit_direct(shares, reports, NOISE, 1.0, 0.95).std_errors[0]
    often = fit_direct(shares, reports, NOISE, 30.0, 0.95).std_errors[0]
    chance = NOISE.p_star + 0.4 * NOISE.gap
    assert once**2 * 1000 == pytest.approx(chance * (1 - chance) / NOISE.gap**2)
    extra = 29 * (0.4 * NOISE.between(1) + 0.6 * NOISE.between(0) + 0.24 * NOISE.gap**2)
    assert (often**2 - once**2) * 1000 == pytest.approx(extra / NOISE.gap**2)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
def test_coverage_at_few_reports(share):
    """10,000 draws of 400 reports: exact binomial steps stay within .02 of 95 %."""
    rng = np.random.default_rng(8)
    counts = rng.binomial(400, NOISE.p_star + NOISE.gap * share, 10_000)
    debiased = (counts / 400 - NOISE.p_star) / NOISE.gap
    fit = fit_direct(debiased[None, :], np.array([400.0]), NOISE, 1.0, 0.95)
    covered = ((fit.low <= share) & (share <= fit.high)).mean()
    assert abs(covered - (0.975 if share == 0 else 0.95)) < 0.02


@pytest.mark.statistical
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_level_holds_where_few_lies_are_expected(mirrored):
    """2,000 lists of 50 empty categories, 5 lies each expected: Bonferroni at 5 %.

    The rate has a standard error of .005 at most; the normal tail names a value in about a
    quarter of the lists. One-sided alarm at .07: below 1e-4.
    """
    noise, reports, lists = BitNoise(1.0, 0.0, 0.5, 0.0025), 2_000, 2_000
    counts = np.random.default_rng(9).binomial(reports, 0.0025, (lists, 50))
    if mirrored:  # q below p: a set bit is shown less often
        noise, counts = BitNoise(1.0, 0.0, 0.5, 0.9975), reports - counts
    debiased = (counts / reports - noise.p_star) / noise.gap
    fit = fit_direct(debiased.reshape(1, -1), np.array([float(reports)]), noise, 1.0, 0.95)
    named = (norm.sf(fit.z).reshape(lists, 50) < 0.05 / 50).any(axis=1).mean()
    assert named < 0.07


def test_many_lies_have_the_normal_tail():
    noise, reports = BitNoise(1.0, 0.0, 0.75, 0.25), 10**9
    shares = np.array([[-0.0001, 0.0, 0.0001, 0.5]])
    fit = fit_direct(shares, np.array([float(reports)]), noise, 1.0, 0.95)
    plain = shares[0] / np.sqrt(0.25 * 0.75 / 0.25 / reports)
    assert fit.z == pytest.approx(plain, abs=0.01)
