"""Intervals of what was found agree with the decision, hold the estimate, and cover."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.estimation.estimate import by_cavity
from decoder.inference.intervals import plain_interval
from decoder.inference.multiple_testing import decide, p_values
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_result
from decoder.numerics.bit_tensor import one_thread
from decoder.results.build import notes_of
from decoder.results.selective_intervals import selected_intervals
from decoder.results.tables import NOTES
from decoder.results.warnings import StepResults
from simulations.experiments.calibration import CalibrationRun, draw
from simulations.experiments.calibration_settings import DISTRIBUTIONS
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

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


def test_few_degrees_of_freedom_widen_found_intervals(fit):
    """Far above its cutoff a value is as uncertain found as it is listed: Student's t, not normal.

    Before, the intervals of 6 degrees of freedom were those of a normal: .8 times as wide.
    """
    options = DecodeOptions(correction="bonferroni")
    estimate = replace(fit[0], freedom=6.0)
    sure = int(np.argmax(estimate.z))
    shares, errors = estimate.shares.copy(), estimate.std_errors.copy()
    shares[sure], errors[sure] = 0.5, 0.001
    z, local_fdr = estimate.z.copy(), np.where(np.arange(len(shares)) == sure, 0.0, 1.0)
    z[sure] = 500.0
    estimate = replace(estimate, shares=shares, std_errors=errors, z=z, local_fdr=local_fdr)
    decision = decide(estimate.p_values, local_fdr, "bonferroni", 1e-9)
    low, high = selected_intervals(replace(estimate, shrunken=shares), decision, options)
    plain = plain_interval(shares, errors, 6.0, options.level)
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
    """Far above its cutoff an interval is a plain one, of the level that is left to it.

    Those that reach 0, from even odds on, miss nothing.
    """
    estimate = fit[0]
    sure = int(np.argmax(estimate.z))
    shares, errors = estimate.shares.copy(), estimate.std_errors.copy()
    shares[sure], errors[sure] = 0.5, 0.001
    z = np.where(np.arange(len(shares)) == sure, 500.0, 0.0)
    estimate = replace(estimate, shares=shares, std_errors=errors, z=z, freedom=1e9)
    estimate = replace(estimate, shrunken=shares, local_fdr=np.full(len(shares), wrong))
    decision = decide(estimate.p_values, estimate.local_fdr, "bonferroni", 1e-9)
    low, high = selected_intervals(estimate, decision, DecodeOptions(correction="bonferroni"))
    plain = plain_interval(shares, errors, np.inf, level)
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
    assert f"{len(reaching)} of them only possible" in page
    table = decoding.candidates
    below = table.estimate < 0
    assert (table.note[below] > 0).all()
    assert below.any()


def test_intervals_of_candidates_are_not_cut_at_0(make_aggregate, values):
    """Of wrong strings, as many intervals lie above 0 as below it: 1 in 40, of 2,000."""
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
