"""The exact audit agrees with the formulas to 1e-12, and sees what is off by 1 in 65,536."""

import numpy as np
import pytest

from client_sdk.randomization.metric_encoder import SymbolCoin
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from tests.client.enumeration import (
    SETTINGS,
    TOLERANCE,
    enumerate_epsilons,
    exact_chances,
    exact_symbol_chances,
    sampled_mechanisms,
)


def test_epsilon_of_small_filters_is_the_declared_one() -> None:
    found = list(enumerate_epsilons())
    assert len(found) == 4 * len(SETTINGS)
    assert {one.reports for one in found} == {0, 1, 2, 3}
    assert max(one.error for one in found) < TOLERANCE


def test_coins_fall_exactly_as_declared() -> None:
    for mechanism in sampled_mechanisms(5, np.random.default_rng(0)):
        assert exact_chances(mechanism) is mechanism


@pytest.mark.parametrize("g", [2, 3, 4, 8, 200])
def test_symbols_fall_exactly_as_declared(g: int) -> None:
    params = RapporParams(g, 1, 4, TwoRoundMechanism.symbols(g, 2.0, 1.0), "symbol")
    assert exact_symbol_chances(params) == ""


def test_chances_must_add_up() -> None:
    with pytest.raises(ValueError, match="is not 65536"):
        SymbolCoin(50_000, 10_000, 4)
