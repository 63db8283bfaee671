"""The exact audit agrees with the formulas to 1e-12, and sees what is off by 1 in 65,536."""

from __future__ import annotations

import numpy as np
import pytest

from client_sdk.randomization import metric_encoder as rounds
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
from tests.client.exact_laws import TooManyDrawsError


def test_epsilon_of_small_filters_is_the_declared_one() -> None:
    found = list(enumerate_epsilons())
    assert len(found) == 4 * len(SETTINGS)
    assert {one.reports for one in found} == {0, 1, 2, 3}
    assert max(one.error for one in found) < TOLERANCE


def test_coins_fall_exactly_as_declared() -> None:
    for mechanism in sampled_mechanisms(5, np.random.default_rng(0)):
        assert exact_chances(mechanism) is mechanism


def test_an_overdrawing_round_is_told_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A coin with a threshold off by one has 16 digits: 2**64 draws."""
    coins = rounds._coins
    monkeypatch.setattr(rounds, "_coins", lambda a, b, k, s: coins(a, b - 1, k, s))
    with pytest.raises(TooManyDrawsError, match="draws 16 words"):
        list(enumerate_epsilons())


def test_symbols_fall_exactly_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    params = RapporParams(4, 1, 4, TwoRoundMechanism.symbols(4, 2.0, 1.0), "symbol")
    assert exact_symbol_chances(params) == ""
    other = params.replace(mechanism=TwoRoundMechanism.symbols(4, 2.2, 1.0))
    monkeypatch.setattr("tests.client.enumeration.PermanentRound", _with(other))
    assert "symbol 0" in exact_symbol_chances(params)


def _with(params: RapporParams):  # type: ignore[no-untyped-def]
    def make(secret, metric, params_id, mechanism, num_bits, *, symbol=False):  # type: ignore[no-untyped-def]
        return rounds.PermanentRound(
            secret, metric, params_id, params.mechanism, num_bits, symbol=symbol
        )

    return make
