"""Epsilons against brute force: every pair of values, every possible series of reports."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from metric_design.central_privacy import at_most, central_epsilon, claim_sentences, smallest_cohort
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from tests.metric_texts import declaration, word


def bloom(mechanism: TwoRoundMechanism, num_hashes: int) -> RapporParams:
    """Parameters under which two values differ in `num_hashes` bits each."""
    return RapporParams(16, num_hashes, 1, mechanism)


def bit_likelihood(mechanism: TwoRoundMechanism, bit: int, series: tuple[int, ...]) -> float:
    """P(the series of reported bits | the Bloom bit), summed over the permanent bit."""
    p1, q1, p2, q2 = (getattr(mechanism, n) / PROBABILITY_SCALE for n in ("p1", "q1", "p2", "q2"))
    keep = p1 if bit else q1
    shown, hidden = keep, 1 - keep
    for reported in series:
        shown *= p2 if reported else 1 - p2
        hidden *= q2 if reported else 1 - q2
    return shown + hidden


def brute_force(mechanism: TwoRoundMechanism, k: int, h: int, n: int) -> float:
    """Largest log ratio over all pairs of h-bit values and all n-report outcomes of k bits."""
    series = list(itertools.product((0, 1), repeat=n))
    likelihood = {(b, s): bit_likelihood(mechanism, b, s) for b in (0, 1) for s in series}
    values = [
        tuple(int(i in chosen) for i in range(k)) for chosen in itertools.combinations(range(k), h)
    ]
    worst = 0.0
    for outcome in itertools.product(series, repeat=k):
        chances = [
            math.prod(likelihood[b, s] for b, s in zip(value, outcome, strict=True))
            for value in values
        ]
        worst = max(worst, math.log(max(chances) / min(chances)))
    return worst


MECHANISMS = [
    TwoRoundMechanism.rappor(0.5, 0.5, 0.75),
    TwoRoundMechanism.rappor(0.75, 0.5, 0.75),
    TwoRoundMechanism.rappor(0.3, 0.8, 0.35),  # q below p
    TwoRoundMechanism.optimized(2.0, 0.7),
    TwoRoundMechanism(p1=60_000, q1=21_000, p2=50_000, q2=1_000),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("k", "h", "n"), [(2, 1, 1), (4, 2, 1), (4, 2, 2), (3, 1, 3), (2, 1, 6)])
def test_epsilon_n_is_what_enumeration_gives(mechanism, k, h, n) -> None:
    exact = brute_force(mechanism, k, h, n)
    assert bloom(mechanism, h).epsilon_n(n) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_permanent_round_alone_is_what_enumeration_gives(mechanism) -> None:
    silent = TwoRoundMechanism(mechanism.p1, mechanism.q1, p2=PROBABILITY_SCALE, q2=0)
    exact = brute_force(silent, k=4, h=2, n=1)
    assert bloom(mechanism, 2).epsilon_infinity == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("n", [1, 3, 8])
def test_a_boolean_costs_what_enumeration_gives(mechanism, n) -> None:
    exact = max(
        abs(math.log(bit_likelihood(mechanism, 1, s) / bit_likelihood(mechanism, 0, s)))
        for s in itertools.product((0, 1), repeat=n)
    )
    assert RapporParams(1, 1, 1, mechanism, "boolean").epsilon_n(n) == pytest.approx(
        exact, rel=1e-9
    )


@pytest.mark.parametrize(
    ("h", "f", "infinity", "one"),
    [(2, 0.5, 4.394, 1.074), (2, 0.75, 2.043, 0.534), (1, 0, math.inf, math.log(3))],
)
def test_published_values(h, f, infinity, one) -> None:
    mechanism = TwoRoundMechanism.rappor(f, 0.5, 0.75)
    assert bloom(mechanism, h).epsilon_infinity == pytest.approx(infinity, abs=5e-4)
    assert bloom(mechanism, h).epsilon_n(1) == pytest.approx(one, abs=5e-4)


@given(st.sampled_from(MECHANISMS), st.integers(1, 5_000), st.integers(1, 4))
def test_reports_add_up_to_the_lifetime_bound(mechanism, n, h) -> None:
    now = bloom(mechanism, h).epsilon_n(n)
    later = bloom(mechanism, h).epsilon_n(n + 1)
    bound = bloom(mechanism, h).epsilon_infinity
    assert 0 < now <= later * (1 + 1e-12) <= bound * (1 + 1e-9)


def test_certain_reports_prove_a_bit() -> None:
    proving = TwoRoundMechanism.rappor(0, 0.5, 1)
    assert bloom(proving, 1).epsilon_n(1) == math.inf
    assert bloom(MECHANISMS[0], 2).epsilon_n(0) == 0


@pytest.mark.parametrize("n", [-1, 1.5, True])
def test_an_impossible_number_of_reports_is_refused(n) -> None:
    with pytest.raises(ParameterError, match="num_reports"):
        bloom(MECHANISMS[0], 2).epsilon_n(n)  # type: ignore[arg-type]


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
