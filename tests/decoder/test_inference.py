"""Corrections against their definitions, by hand and against statsmodels-like brute force."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.errors import DecodeError
from decoder.estimation.estimate import Estimate
from decoder.inference.multiple_testing import (
    CORRECTIONS,
    decide,
    null_share,
    p_values,
)
from decoder.options import DecodeOptions

P = np.array([0.001, 0.2, 0.012, 0.03, 0.95, 0.013])
LOCAL = np.array([0.01, 0.6, 0.05, 0.2, 0.99, 0.06])


def test_bonferroni_and_none():
    decision = decide(P, LOCAL, "bonferroni", 0.05)
    np.testing.assert_allclose(decision.adjusted, np.minimum(P * 6, 1))
    assert decision.detected.tolist() == [True, False, False, False, False, False]
    assert decision.cutoff == pytest.approx(0.05 / 6)
    np.testing.assert_allclose(decide(P, LOCAL, "none", 0.05).adjusted, P)


@pytest.mark.parametrize("seed", range(5))
def test_benjamini_hochberg_is_the_step_up_rule(seed):
    p = np.random.default_rng(seed).random(50) ** 3
    decision = decide(p, p, "bh", 0.1)
    passed = np.flatnonzero(np.sort(p) <= 0.1 * np.arange(1, 51) / 50)
    limit = np.sort(p)[passed[-1]] if len(passed) else -1.0
    assert decision.detected.tolist() == (p <= limit).tolist()
    if decision.detected.any():
        assert p[decision.detected].max() <= decision.cutoff < np.inf


def test_storey_multiplies_by_the_share_of_nulls():
    p = np.concatenate([np.full(50, 1e-6), np.linspace(0.01, 0.999, 50)])
    assert null_share(p) == pytest.approx((np.sum(p > 0.9) + 1) / (0.1 * 100))
    ratio = decide(p, p, "fdr", 0.05).adjusted / decide(p, p, "bh", 0.05).adjusted
    assert ratio[0] == pytest.approx(null_share(p))
    assert decide(p, p, "fdr", 0.05).detected[p > 0.9].sum() == 0


def test_short_lists_teach_no_null_share():
    assert null_share(np.array([0.99, 0.99])) == 1.0
    assert null_share(np.full(30, 0.99)) > 1.0


@pytest.mark.statistical
def test_storeys_rule_keeps_its_null_level():
    """P(any of 60 uniform p-values) over 8,000 draws is at most .05: false alarms .6 %.

    With the estimate cut off at 1 it is .0565, which the same bound rejects.
    """
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


def test_sure_values_do_not_let_others_pass():
    p, alone = np.array([0.0, 0.03, 0.5]), np.array([True, False, False])
    assert decide(p, p, "bh", 0.05).detected.tolist() == [True, True, False]
    assert decide(p, p, "bh", 0.05, alone=alone).detected.tolist() == [True, False, False]


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


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_adjusted_values_keep_order_and_range(correction):
    p = np.random.default_rng(1).random(30)
    adjusted = decide(p, p, correction, 0.05).adjusted
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
    assert (adjusted >= p * 0.0).all()
    assert (adjusted <= 1).all()


def test_nothing_found_has_no_cutoff():
    assert decide(np.array([0.5]), np.array([0.9]), "bh", 0.05).cutoff == 0.0
    p = np.array([0.2, 0.04])
    assert decide(p, p, "none", 0.5, largest_p=0.05).detected.tolist() == [False, True]


def test_unknown_rules_and_levels_are_named():
    with pytest.raises(DecodeError, match="'sidak' is not one of bonferroni, bh"):
        DecodeOptions(correction="sidak")
    with pytest.raises(DecodeError, match=r"alpha = 1.5"):
        DecodeOptions(alpha=1.5)


def test_fdr_counts_wrong_candidates_by_unshrunk_scores() -> None:
    """1,400 sure values alongside 300 wrong strings whose scores vary by .82: as in dense rows.

    The mean false share over 400 lists is at most .05 + 3 standard errors; by the shrunk scores,
    of which half as many are below -1.28, above .07.
    """
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
