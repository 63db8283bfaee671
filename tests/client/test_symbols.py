"""Symbol coins against every draw there is."""

from collections import Counter

import pytest

from client_sdk.randomization.metric_encoder import SymbolCoin
from rappor_core.mechanism import TwoRoundMechanism


@pytest.mark.parametrize("g", [2, 3, 8, 200])
def test_a_coin_has_exactly_its_chances(g: int) -> None:
    mechanism = TwoRoundMechanism.symbols(g, 2.0, 1.0)
    coin = SymbolCoin(mechanism.p1, mechanism.q1, g)
    for own in (0, g // 2, g - 1):
        seen = Counter(coin.toss(1 << own, draw.to_bytes(2, "little")) for draw in range(1 << 16))
        assert seen == {
            1 << symbol: mechanism.p1 if symbol == own else mechanism.q1 for symbol in range(g)
        }


def test_chances_must_add_up() -> None:
    with pytest.raises(ValueError, match="is not 65536"):
        SymbolCoin(50_000, 10_000, 4)
