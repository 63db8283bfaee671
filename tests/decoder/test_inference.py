"""Corrections against their definitions, by hand and against statsmodels-like brute force."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from decoder import Candidates, DecodeOptions, decode
from decoder.errors import DecodeError
from decoder.estimation.estimate import Estimate, by_cavity, fit_direct
from decoder.inference.intervals import plain_interval, selected_interval, widened_interval
from decoder.inference.multiple_testing import decide, null_share, p_values
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_result
from decoder.model.counts import debias
from decoder.model.noise import BitNoise
from decoder.model.null_distribution import NORMAL_TAIL, NullTail
from decoder.numerics.bit_tensor import one_thread
from decoder.results.build import notes_of
from decoder.results.selective_intervals import selected_intervals
from decoder.results.tables import NOTES
from decoder.results.warnings import StepResults
from simulations.experiments.calibration import CalibrationRun, draw
from simulations.experiments.calibration_settings import DISTRIBUTIONS
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

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
    with pytest.raises(DecodeError, match="contain no information"):
        debias(np.ones((1, 1)), np.ones(1), BitNoise(0.5, 0.5, 0.75, 0.5))


RUNS = 2


RULES = ("bonferroni", "bh", "fdr", "fdr-eb")


def fitted(configuration, distribution, run):
    """An estimate with its truth: 1,000,000 reports of 100 values, a list of 110 or 290."""
    sample = draw(CalibrationRun("small", configuration, distribution, 4000 + run))
    with one_thread():
        return by_cavity(sample.observed, 0.95), sample.true_shares


@pytest.fixture(scope="module")
def fit():
    return fitted("typical", DISTRIBUTIONS[0], 0)


@pytest.fixture(scope="module")
def fits():
    configurations = ("typical", "over_x2")
    return [fitted(*one) for one in product(configurations, DISTRIBUTIONS, range(RUNS))]


@pytest.mark.parametrize("rule", RULES)
def test_intervals_of_the_found_agree_with_the_decision(fit, rule):
    """Before, half of those found by a small margin began at 0, whatever their p-value."""
    covered = held_by_intervals([fit], rule)
    assert len(covered) > 10


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_intervals_of_the_found_cover(fits, rule):
    """400 and more intervals a rule; s.e. of the coverage .012 and less."""
    assert 0.9 < np.mean(held_by_intervals(fits, rule)) < 0.985


def held_by_intervals(fits, rule):
    """Whether each interval of what was found holds the truth; all agree with the decision."""
    options, covered = DecodeOptions(correction=rule), []
    for estimate, truth in fits:
        p = p_values(estimate.tail.deviate(estimate.z))
        decision = decide(p, estimate.local_fdr, rule, 0.05)
        low, high = selected_intervals(estimate, decision, options)
        found = np.flatnonzero(decision.detected)
        strong = found[(p[found] <= 0.025) & (estimate.shares[found] > 0)]
        if rule != "fdr-eb":  # whose threshold is no p-value
            assert (low[strong] > 0).all()
        for share in (estimate.shares, estimate.shrunken):
            assert (low[found] <= np.maximum(share[found], 0)).all()
            assert (share[found] <= high[found]).all()
        covered += ((low <= truth) & (truth <= high))[found].tolist()
    return covered


def sure_value(estimate, **changes):
    """Its place, and the estimate with a value far above its cutoff."""
    sure = int(np.argmax(estimate.z))
    shares, errors, z = estimate.shares.copy(), estimate.std_errors.copy(), estimate.z.copy()
    shares[sure], errors[sure], z[sure] = 0.5, 0.001, 500.0
    return sure, replace(
        estimate, shares=shares, std_errors=errors, z=z, shrunken=shares, **changes
    )


def test_few_degrees_of_freedom_widen_found_intervals(fit):
    """Far above its cutoff a value is as uncertain found as listed: Student's t, not normal."""
    alone = np.ones(len(fit[0].z))
    alone[np.argmax(fit[0].z)] = 0
    sure, estimate = sure_value(fit[0], freedom=6.0, local_fdr=alone)
    decision = decide(estimate.p_values, alone, "bonferroni", 1e-9)
    low, high = selected_intervals(estimate, decision, DecodeOptions(correction="bonferroni"))
    plain = plain_interval(estimate.shares, estimate.std_errors, 6.0, 0.95)
    assert np.flatnonzero(decision.detected).tolist() == [sure]
    np.testing.assert_allclose((low[sure], high[sure]), [end[sure] for end in plain], rtol=1e-6)


@pytest.mark.parametrize(("local_fdr", "note"), [(0.49, 0), (0.51, 5)])
def test_found_values_likelier_wrong_reach_0(fit, local_fdr, note):
    estimate, options = fit[0], DecodeOptions(correction="bonferroni")
    estimate = replace(estimate, local_fdr=np.full(len(estimate.shares), local_fdr))
    decision = decide(estimate.p_values, estimate.local_fdr, "bonferroni", 0.05)
    found = decision.detected
    assert found.sum() > 3
    intervals = selected_intervals(estimate, decision, options)
    answer = StepResults(None, None, options, None, None, estimate, decision, intervals)
    assert ((intervals[0][found] == 0) == (note > 0)).all()
    assert (notes_of(answer)[found] == note).all()


@pytest.mark.parametrize(
    ("wrong", "level"),
    [(0.0, 0.95), (0.02, 0.97), (0.04, 0.99), (0.05, 0.99), (0.3, 0.99), (0.6, 0.95)],
)
def test_wrong_strings_misses_narrow_the_others(fit, wrong, level):
    """Far above its cutoff an interval is plain, of the level that those that reach 0 leave it."""
    wrongs = np.full(len(fit[0].z), wrong)
    sure, estimate = sure_value(fit[0], freedom=1e9, local_fdr=wrongs)
    decision = decide(estimate.p_values, wrongs, "bonferroni", 1e-9)
    low, high = selected_intervals(estimate, decision, DecodeOptions(correction="bonferroni"))
    plain = plain_interval(estimate.shares, estimate.std_errors, np.inf, level)
    lowest = plain[0][sure] if wrong < 0.5 else 0.0
    np.testing.assert_allclose((low[sure], high[sure]), (lowest, plain[1][sure]), rtol=1e-6)


@pytest.mark.parametrize("method", ["cavity", "lasso"])
def test_intervals_are_of_shares_above_1_too(method):
    """All devices hold one value; half of the estimates are above 1, and so were the intervals."""
    params = rappor(16, 2, 4, 0.5, 0.5, 0.75)
    rng, above = np.random.default_rng(6), 0
    for _ in range(8):
        aggregate, _ = draw_aggregate(["held"], np.ones(1), 5_000, params, rng)
        row = decode(
            aggregate, Candidates.from_strings(["held"]), DecodeOptions(method=method)
        ).detected[0]
        assert 0 <= row.low <= row.high <= 1
        above += row.share > 1
        assert (row.note == NOTES[2]) or row.share <= 1
    assert above


def test_a_row_says_why_its_interval_reaches_0(make_aggregate, values, shares):
    aggregate = make_aggregate(num_reports=20_000, seed=3)
    options = DecodeOptions(correction="none", alpha=0.3)
    decoding = decode(aggregate, Candidates.from_strings(values), options)
    reaching = [row for row in decoding.detected if row.low == 0]
    assert reaching
    assert all((row.note in NOTES[3:]) == (row.low == 0) for row in decoding.detected)
    result = decoding_result(decoding)
    printed = result.printed[0].data["found"]
    assert printed == ["yes" if row.low else "possible" for row in decoding.detected]
    assert f"{len(reaching)} of them possible" in result.printed[0].title
    page = render_page(KIND, in_memory(result, "decode"))
    assert page.count("% possible</td>") == page.count("(possible)</bdi>") == len(reaching)
    assert f"{len(reaching)} only possible" in page
    table = decoding.candidates
    below = table.estimate < 0
    assert (table.note[below] > 0).all()
    assert below.any()


def test_intervals_of_candidates_are_not_cut_at_0(make_aggregate, values):
    """For wrong strings, as many intervals lie above 0 as below it: 1 in 40, of 2,000."""
    wrong = Candidates.from_strings([f"wrong-{i}" for i in range(2_000)])
    table = decode(make_aggregate(num_reports=20_000, seed=3), wrong).candidates
    assert ((table.low < table.estimate) & (table.estimate < table.high)).all()
    assert 0.01 < (table.low > 0).mean() < 0.05
    assert 0.01 < (table.high < 0).mean() < 0.05


def test_what_is_explained_is_of_what_can_be(make_aggregate, values, shares):
    """2,000 reports are mostly noise; the listed values are nearly all that can be explained."""
    summary = decode(make_aggregate(num_reports=2_000), Candidates.from_strings(values)).summary
    assert summary.explained < 0.5 < summary.noise
    assert summary.signal_explained > 0.9
    half = decode(make_aggregate(), Candidates.from_strings(values[1:])).summary
    assert 0.2 < half.signal_explained < 0.8
