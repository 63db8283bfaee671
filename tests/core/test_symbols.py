"""LOLOHA's symbols and one-shot OUE: every promise against enumeration at small sizes."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rappor_core.errors import InformationLostError, ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.params import RapporParams


def params_of(num_symbols: int, epsilon_infinity: float, epsilon_one: float) -> RapporParams:
    mechanism = TwoRoundMechanism.symbols(num_symbols, epsilon_infinity, epsilon_one)
    return RapporParams(num_symbols, 1, 4, mechanism, "symbol")


def series_likelihood(params: RapporParams, symbol: int, series: tuple[int, ...]) -> float:
    """P(series of reported symbols | true symbol), summed over the permanent symbol."""
    m = params.mechanism
    p1, q1, p2, q2 = (x / PROBABILITY_SCALE for x in (m.p1, m.q1, m.p2, m.q2))
    return sum(
        (p1 if kept == symbol else q1) * math.prod(p2 if seen == kept else q2 for seen in series)
        for kept in range(params.num_bits)
    )


@pytest.mark.parametrize(("g", "n"), [(2, 1), (2, 5), (3, 1), (3, 4), (4, 3), (8, 2)])
def test_epsilon_n_is_what_enumeration_gives(g, n) -> None:
    params = params_of(g, 2.0, 1.0)
    worst = max(
        math.log(max(chances) / min(chances))
        for series in itertools.product(range(g), repeat=n)
        if (chances := [series_likelihood(params, symbol, series) for symbol in range(g)])
    )
    assert params.epsilon_n(n) == pytest.approx(worst, rel=1e-9)


def test_four_many_symbol_reports_cost_over_fourfold() -> None:
    params = params_of(64, 2.0, 0.14)
    four = params.epsilon_n(4)
    series = (0,) * 4
    chances = [series_likelihood(params, symbol, series) for symbol in (0, 1)]
    assert four == pytest.approx(math.log(chances[0] / chances[1]), rel=1e-9)
    assert four > 2 * 4 * params.epsilon_one
    assert 4 * params.epsilon_per_report(4) == pytest.approx(four)


@given(
    g=st.integers(2, 64),
    epsilon_infinity=st.floats(0.5, 6),
    share=st.floats(0.02, 0.8),
    many=st.integers(1, 400),
    encoding=st.sampled_from(["symbol", "one_hot", "l-osue", "boolean"]),
)
def test_reports_cost_no_more_than_counted(g, epsilon_infinity, share, many, encoding) -> None:
    one = share * epsilon_infinity
    try:
        if encoding == "symbol":
            params = params_of(g, epsilon_infinity, one)
        elif encoding == "l-osue":
            mechanism = TwoRoundMechanism.optimized(epsilon_infinity, one)
            params = RapporParams(g, 1, 1, mechanism, "one_hot")
        else:
            mechanism = TwoRoundMechanism.symmetric(epsilon_infinity, one)
            params = RapporParams(1 if encoding == "boolean" else g, 1, 1, mechanism, encoding)
    except InformationLostError:
        return
    each = params.epsilon_per_report(many)
    for number in range(1, many + 1):
        assert params.epsilon_n(number) <= number * each * (1 + 1e-9)


@given(g=st.integers(2, 64), epsilon_infinity=st.floats(0.5, 6), share=st.floats(0.1, 0.8))
def test_promises_are_reached_and_never_passed(g, epsilon_infinity, share) -> None:
    params = params_of(g, epsilon_infinity, share * epsilon_infinity)
    m = params.mechanism
    for kept, lie in ((m.p1, m.q1), (m.p2, m.q2)):
        assert kept + (g - 1) * lie == PROBABILITY_SCALE
    assert params.epsilon_infinity <= epsilon_infinity * (1 + 1e-12)
    assert params.epsilon_one <= share * epsilon_infinity * (1 + 1e-12)
    rounding = (math.exp(epsilon_infinity) + g) / PROBABILITY_SCALE * 2 * g
    assert params.epsilon_infinity >= epsilon_infinity - rounding - 1e-9
    assert params.epsilon_infinity == pytest.approx(math.log(m.p1 / m.q1))
    assert params.epsilon_n(10**6) == pytest.approx(params.epsilon_infinity)


def test_symbol_reports_have_the_frames_marginals() -> None:
    params = params_of(5, 2.0, 1.0)
    assert series_likelihood(params, 2, (2,)) == pytest.approx(params.q_star)
    assert series_likelihood(params, 2, (4,)) == pytest.approx(params.p_star)
    assert params.q_star == pytest.approx(math.e / (math.e + 4), abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.log(3), 4.0])
def test_one_shot_is_oue(epsilon) -> None:
    params = RapporParams(8, 1, 1, TwoRoundMechanism.one_shot(epsilon), "one_hot")
    assert params.q_star == 0.5
    assert params.p_star == pytest.approx(1 / (math.exp(epsilon) + 1), abs=2e-5)
    assert epsilon - 2e-3 < params.epsilon_one <= epsilon
    assert params.epsilon_infinity == math.inf


def test_what_cannot_work_is_refused() -> None:
    good = TwoRoundMechanism.symbols(4, 2.0, 1.0)
    with pytest.raises(ParameterError, match=r"5 symbols|4 \* "):
        RapporParams(5, 1, 4, good, "symbol")
    with pytest.raises(ParameterError, match="num_hashes = 2"):
        RapporParams(4, 2, 4, good, "symbol")
    with pytest.raises(ParameterError, match="md5"):
        RapporParams(4, 1, 4, good, "symbol", "md5")
    with pytest.raises(ParameterError, match="num_symbols = 1"):
        TwoRoundMechanism.symbols(1, 2.0, 1.0)
    with pytest.raises(ParameterError, match="epsilon_one = 2"):
        TwoRoundMechanism.symbols(4, 2.0, 2.0)
    with pytest.raises(InformationLostError, match="keeps nothing"):
        TwoRoundMechanism.symbols(256, 1e-5, 5e-6)
    for epsilon in (0, -1, 12, math.nan):
        with pytest.raises(ParameterError, match="epsilon = "):
            TwoRoundMechanism.one_shot(epsilon)
