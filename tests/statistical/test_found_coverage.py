"""Intervals of found values where a list has one sure value and many that are hardly found.

A small form of `dominant 0.99` of `rappor simulate decoder-calibration`: independent normal
estimates in place of a fit. One value of 5,000 standard errors, 60 of .92, 150 wrong strings; found
are the first and, now and then, one of the others that came out three standard errors too high.
"""

import numpy as np
import pytest

from decoder.estimation.ep_sites import Scores, refit_prior
from decoder.estimation.estimate import Estimate
from decoder.inference.multiple_testing import decide
from decoder.options import DecodeOptions
from decoder.results.selective_intervals import selected_intervals

LISTS, ERROR = 400, 2e-4
TRUTH = ERROR * np.concatenate([[4_900.0], np.full(60, 0.92), np.zeros(150)])


def _estimate(rng: np.random.Generator) -> Estimate:
    errors = np.full(len(TRUTH), ERROR)
    shares = rng.normal(TRUTH, errors)
    scores, z = Scores(shares, errors), shares / errors
    outside = np.zeros(len(TRUTH), dtype=bool)
    prior = refit_prior(None, scores, outside, may_rebuild=True, null_z=z, steps=80)
    shrunken, _, local_fdr = prior.posterior(shares, errors)
    ends = shares - 1.96 * errors, shares + 1.96 * errors
    return Estimate(shares, errors, z, *ends, shrunken, local_fdr, prior, np.zeros((1, 1)), 1.0)


@pytest.mark.long
@pytest.mark.statistical
def test_values_found_because_they_were_overestimated_are_covered():
    """Of the small values rightly found: .92 standard errors, estimated as 3 or more.

    About 390 by `fdr` and 190 by `fdr-eb` in 400 lists, of which .980 and .965 are covered (2,000
    lists): below these bounds once in 1,000 draws. Without the prior's part in the lower end .924
    and .896 here; with a prior that explains estimates far below 0 as large shares .10 by `fdr-eb`.
    """
    rng, found, held = np.random.default_rng(3), {}, {}
    for _ in range(LISTS):
        estimate = _estimate(rng)
        for rule in ("fdr", "fdr-eb"):
            options = DecodeOptions(correction=rule)
            decision = decide(estimate.p_values, estimate.local_fdr, rule, 0.05)
            low, high = selected_intervals(estimate, decision, options)
            assert (low[decision.detected] > 0).all()
            small = np.flatnonzero(decision.detected[1:61]) + 1
            inside = (low[small] <= TRUTH[small]) & (TRUTH[small] <= high[small])
            found[rule] = found.get(rule, 0) + len(small)
            held[rule] = held.get(rule, 0) + int(inside.sum())
    for rule, many, least in (("fdr", 250, 0.95), ("fdr-eb", 100, 0.91)):
        assert found[rule] > many
        assert held[rule] / found[rule] > least
