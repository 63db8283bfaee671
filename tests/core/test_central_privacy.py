"""The bound for readers of published counts: its formula, exact divergences, refusals."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from metric_design.central_privacy import at_most, central_epsilon, claim_sentences, smallest_cohort
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration, word


def divergence(epsilon: float, reports: int, central: float) -> float:
    """Hockey-stick divergence of the counts of shuffled binary randomized response, exactly.

    The others all hold 0: a count of ones is a binomial number and the device's own bit.
    """
    lie = 1 / (1 + math.exp(epsilon))
    others = binom.pmf(np.arange(reports), reports - 1, lie)
    none, one = np.append(others, 0.0), np.insert(others, 0, 0.0)
    with_one, with_zero = (1 - lie) * one + lie * none, lie * one + (1 - lie) * none
    return float(np.maximum(with_one - math.exp(central) * with_zero, 0).sum())


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("reports", [300, 5_000, 100_000])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_exact_divergences_never_exceed_the_bound(epsilon, reports, delta) -> None:
    bound = central_epsilon(epsilon, reports, delta)
    assert 0 <= bound <= epsilon
    assert divergence(epsilon, reports, bound) <= delta


def test_the_bound_is_the_papers_formula() -> None:
    """ln(1 + (e^1 - 1) / (e^1 + 1) * (8 sqrt(e^1 ln(4 / delta) / n) + 8 e^1 / n)), by hand."""
    assert central_epsilon(1.0, 10_000, 1e-6) == pytest.approx(0.214026, abs=1e-6)
    assert central_epsilon(1.0, 100, 1e-6) == 1.0  # too few reports for the theorem
    assert central_epsilon(1.0, 10**8) < central_epsilon(1.0, 10**6) < 0.03


def test_smallest_cohorts_are_seldom_smaller_than_said() -> None:
    """400 draws of 32 cohorts: about 1 in 8 has a smaller one; 1 in 5 comes once in 10,000 runs."""
    rng = np.random.default_rng(6)
    draws = rng.multinomial(32_000, np.full(32, 1 / 32), 400).min(axis=1)
    said = smallest_cohort(32_000, 32)
    assert np.mean(draws < said) < 0.2
    assert said > 900  # and no idle bound


@pytest.mark.parametrize("bound", [0.0304, 0.19, 0.191, 1.0, 2.04, 9.96, 0.00071, 1234.0])
def test_a_bound_is_never_understated(bound) -> None:
    said = float(at_most(bound))
    assert bound <= said * (1 + 1e-9) <= bound * 1.1
    assert at_most(0.19) == "0.19"


def test_claims_state_their_condition_and_their_absence() -> None:
    text = word("few") + declaration("enough", "boolean", prob_f=0.5, prob_p=0.4, prob_q=0.6)
    few, enough = parse_metrics(text).declared
    (refused,) = claim_sentences(few, 100_000)
    assert "is below 130 for each cohort; use min_reports = 1,040" in refused
    bound, local = claim_sentences(enough, 100_000)
    assert "at least 100,000 honest reports in the smallest cohort" in bound
    assert f"epsilon {at_most(central_epsilon(enough.epsilon_one, 100_000))} (delta 1e-06)" in bound
    assert local.endswith("without any condition")
    assert "at least 100 honest reports" in claim_sentences(enough, 500)[0]
