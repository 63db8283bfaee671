"""Corrections against their definitions, by hand and against statsmodels-like brute force."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from decoder.errors import DecodeError
from decoder.estimation.estimate import Estimate, fit_direct
from decoder.inference.intervals import bisect, plain_interval, selected_interval, widened_interval
from decoder.inference.multiple_testing import decide, null_share, p_values
from decoder.model.counts import debias
from decoder.model.noise import BitNoise
from decoder.model.null_distribution import NORMAL_TAIL, NullTail

P = np.array([0.001, 0.2, 0.012, 0.03, 0.95, 0.013])
LOCAL = np.array([0.01, 0.6, 0.05, 0.2, 0.99, 0.06])


def test_short_lists_teach_no_null_share():
    assert null_share(np.array([0.99, 0.99])) == 1.0
    assert null_share(np.full(30, 0.99)) > 1.0


@pytest.mark.statistical
def test_storeys_rule_keeps_its_null_level():
    """P(any of 60 uniform p-values) over 8,000 draws is at most .05: false alarms .6 %."""
    rng, level, runs = np.random.default_rng(8), 0.05, 8000
    allowed = level + 2.5 * np.sqrt(level * (1 - level) / runs)
    lists = rng.random((runs, 60))
    assert np.mean([decide(p, p, "fdr", level).detected.any() for p in lists]) < allowed
    cut = [min(null_share(p), 1.0) * (np.sort(p) * 60 / np.arange(1, 61)).min() for p in lists]
    assert np.mean(np.array(cut) <= level) > allowed


@pytest.mark.parametrize("rule", ["bonferroni", "bh", "fdr", "fdr-eb", "none"])
def test_foreign_values_change_no_decision(rule):
    alone = np.array([True, False, False, False, False, False, False, True])
    p, local = np.concatenate([[0.0], P, [0.04]]), np.concatenate([[0.0], LOCAL, [0.4]])
    own, apart = decide(P, LOCAL, rule, 0.05), decide(p, local, rule, 0.05, alone=alone)
    assert apart.detected[~alone].tolist() == own.detected.tolist()
    assert apart.adjusted[~alone].tolist() == own.adjusted.tolist()
    statistic = local if rule == "fdr-eb" else p
    assert apart.detected[alone].tolist() == (statistic[alone] <= 0.05).tolist()
    assert apart.adjusted[alone].tolist() == statistic[alone].tolist()
    assert apart.largest(np.arange(8))[alone].tolist() == [0.05, 0.05]
    assert apart.largest(np.array([1, 2])).tolist() == own.largest(np.array([0, 1])).tolist()


def test_remaining_weights_have_mean_one():
    alone, weights = np.array([True, False, False]), np.array([2.0, 0.8, 0.2])
    p = np.array([0.5, 0.02, 0.02])
    decision = decide(p, p, "bonferroni", 0.05, weights=weights, alone=alone)
    assert decision.adjusted == pytest.approx([0.5, 0.02 * 2 / 1.6, 0.02 * 2 / 0.4])
    assert decision.largest(np.arange(3)) == pytest.approx([0.05, 0.04, 0.01])
    assert decision.detected.tolist() == [False, True, False]


def test_local_fdr_takes_the_largest_allowed_set():
    decision = decide(P, LOCAL, "fdr-eb", 0.05)
    assert decision.detected.tolist() == [True, False, True, False, False, True]
    assert decision.adjusted[5] == pytest.approx((0.01 + 0.05 + 0.06) / 3)


@pytest.mark.parametrize(("refused", "largest"), [(0.2, 0.09), (0.085, 0.085)])
def test_the_local_fdr_cutoff_is_the_largest_accepted(refused, largest):
    """.01, .05 and .06 sum to .12 of .15: the last may rise to .09, or to the best refused."""
    local = LOCAL.copy()
    local[3] = refused
    cutoff = decide(P, local, "fdr-eb", 0.05).cutoff
    assert cutoff == pytest.approx(largest)
    for step, accepted in ((-1e-9, True), (1e-9, False)):
        local[5] = cutoff + step
        assert decide(P, local, "fdr-eb", 0.05).detected[5] == accepted


def test_nothing_found_has_no_cutoff():
    assert decide(np.array([0.5]), np.array([0.9]), "bh", 0.05).cutoff == 0.0
    p = np.array([0.2, 0.04])
    assert decide(p, p, "none", 0.5, largest_p=0.05).detected.tolist() == [False, True]


def test_fdr_counts_wrong_candidates_by_unshrunk_scores() -> None:
    """1,400 sure values, 300 wrong strings whose scores vary by .82; 400 lists, 3 errors."""
    rng = np.random.default_rng(5)
    shrunk, restored = [], []
    for _ in range(400):
        z = np.concatenate([np.full(1_400, 20.0), 0.82 * rng.standard_normal(300)])
        p, null_p = p_values(z), p_values(z / 0.82)
        for shares, kept in ((shrunk, p), (restored, null_p)):
            found = decide(p, p, "fdr", 0.05, null_p=kept).detected
            shares.append(found[1_400:].sum() / found.sum())
    assert np.mean(shrunk) > 0.07
    assert np.mean(restored) < 0.05 + 3 * np.std(restored) / 20


def test_null_p_values_undo_the_ratio() -> None:
    z = np.array([-1.0, 0.5, 2.0])
    nothing = np.zeros(3)
    estimate = Estimate(
        nothing, nothing, z, *[nothing] * 4, None, np.zeros((9, 1)), 0.0, ratio=0.64
    )
    np.testing.assert_allclose(estimate.p_values, p_values(z))
    np.testing.assert_allclose(estimate.null_p_values, p_values(z / 0.8))
    for other in (replace(estimate, ratio=2.0), replace(estimate, method="lasso")):
        np.testing.assert_allclose(other.null_p_values, p_values(z))
    assert (replace(estimate, converged=False).null_p_values == 1).all()


SIZE = 20_000
NORMAL = 1.959964


def ends_of(estimates, errors, deviates, law=NORMAL_TAIL):
    """Ends of the interval at 95 %, with normal plain margins."""
    values = [np.asarray(x, dtype=float) for x in (estimates, errors, deviates)]
    plain = plain_interval(*values[:2], np.inf, 0.95)
    return plain, widened_interval(*values, law, np.inf, 0.95)


@pytest.mark.parametrize("sign", [1, -1])
def test_intervals_reach_0_where_tests_fail(sign):
    """Whatever the standard error says: here the estimates are 10 and 2.5 of them from 0."""
    deviates = sign * np.array([0.01, 1.0, 1.9, NORMAL - 1e-6, NORMAL + 1e-6, 2.1, 5.0])
    for error in (0.001, 0.004):
        size = len(deviates)
        _, (low, high) = ends_of(np.full(size, sign * 0.01), np.full(size, error), deviates)
        near_0 = low if sign > 0 else -high
        assert (near_0[:4] <= 1e-7).all()
        assert (near_0[4:] >= -1e-7).all()
        assert (np.diff(near_0) >= 0).all()  # rises with the evidence, without a jump
        assert near_0[4] < 1e-5


def test_intervals_far_from_0_are_plain():
    plain, (low, high) = ends_of([0.23], [0.0043], [21.0])
    assert 0 <= plain[0][0] - low[0] < 0.02 * 0.0043 * NORMAL
    assert high == plain[1]


@pytest.mark.parametrize("level", [0.3, 0.5, 0.95, 0.999])
def test_contradicted_estimates_are_not_told_from_0(level):
    """Also at levels whose normal quantile is below 1, and however sure the estimate seems."""
    estimates, errors = np.array([1.0, -1.0, 0.02, 1.0]), np.array([1e-3, 1e-3, 0.004, 1e-3])
    deviates = np.array([-1.0, 1.0, -0.2, 0.3])
    low, high = widened_interval(estimates, errors, deviates, NORMAL_TAIL, np.inf, level)
    assert (low <= 0).all()
    assert (high >= 0).all()


def test_straying_scores_widen_each_side():
    law = NullTail(np.array([-3.0, 0.0, 2.5]), np.array([-NORMAL, 0.0, NORMAL]))
    plain, (low, high) = ends_of([0.1], [0.01], [10.0], law)
    np.testing.assert_allclose(0.1 - low, 0.025, rtol=1e-6)
    np.testing.assert_allclose(high - 0.1, 0.03, rtol=1e-6)
    narrow = NullTail(np.array([-1.0, 0.0, 1.0]), np.array([-NORMAL, 0.0, NORMAL]))
    np.testing.assert_array_equal(ends_of([0.1], [0.01], [10.0], narrow)[1][1], plain[1])


def test_ends_solve_their_equations():
    estimate, error, cutoff = np.array([0.11]), np.array([0.02]), np.array([0.09])
    low, high = selected_interval(estimate, error, cutoff, 0.9)
    for end, tail in ((low, 0.05), (high, 0.95)):
        ratio = norm.sf(estimate, end, error) / norm.sf(cutoff, end, error)
        assert ratio[0] == pytest.approx(tail, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.5, 1.5, 3.0])
def test_coverage_given_selection(share):
    """Binomial over about 20,000 selected: 5 standard deviations, alarms < 1e-6 each."""
    rng, cutoff = np.random.default_rng(5), 2.0
    draws = norm.isf(rng.random(SIZE) * norm.sf(cutoff - share)) + share
    ones = np.ones(SIZE)
    low, high = selected_interval(0.05 * draws, 0.05 * ones, 0.05 * cutoff * ones, 0.95)
    covered = ((low <= 0.05 * share) & (0.05 * share <= high)).mean()
    assert abs(covered - 0.95) < 5 * np.sqrt(0.95 * 0.05 / SIZE)
    plain = plain_interval(0.05 * draws, 0.05 * ones, np.inf, 0.95)
    naive = ((plain[0] <= 0.05 * share) & (0.05 * share <= plain[1])).mean()
    assert share > 2 or naive < 0.93  # well above the cutoff selection changes little


def test_bisection_finds_roots_and_stays_at_the_ends():
    roots = bisect(lambda x: x - np.array([0.25, -1.0, 9.0]), np.zeros(3), np.ones(3))
    np.testing.assert_allclose(roots, [0.25, 0.0, 1.0], atol=1e-12)


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
    """2,000 lists of 50 empty categories, 5 lies each expected: alarm at .07 below 1e-4."""
    noise, reports, lists = BitNoise(1.0, 0.0, 0.5, 0.0025), 2_000, 2_000
    counts = np.random.default_rng(9).binomial(reports, 0.0025, (lists, 50))
    if mirrored:  # q below p: a set bit is shown less often
        noise, counts = BitNoise(1.0, 0.0, 0.5, 0.9975), reports - counts
    debiased = (counts / reports - noise.p_star) / noise.gap
    fit = fit_direct(debiased.reshape(1, -1), np.array([float(reports)]), noise, 1.0, 0.95)
    named = (norm.sf(fit.z).reshape(lists, 50) < 0.05 / 50).any(axis=1).mean()
    assert named < 0.07


def test_expected_counts_give_back_the_shares():
    shares = np.array([[0.0, 0.3, 1.0], [0.5, 0.25, 0.1]])
    reports = np.array([100.0, 40.0])
    counts = reports[:, None] * (NOISE.p_star + NOISE.gap * shares)
    np.testing.assert_allclose(debias(counts, reports, NOISE), shares)


def test_a_mechanism_that_keeps_nothing_is_refused():
    with pytest.raises(DecodeError, match="hold no information"):
        debias(np.ones((1, 1)), np.ones(1), BitNoise(0.5, 0.5, 0.75, 0.5))
