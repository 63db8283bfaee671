"""Symbol coins against every draw there is."""

from collections import Counter

import pytest

from client_sdk.randomisation.encoder import MetricEncoder
from client_sdk.randomisation.rounds import SymbolCoin
from client_sdk.testing import FixedRandomness
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics


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


def test_a_device_keeps_its_symbol_and_reports_one() -> None:
    metric = parse_metrics(
        """
        [metrics.place]
        kind = "location"
        description = "x"
        owner = "x"
        expires = 2099-01-01
        grid = "square"
        box = [0, 0, 1, 1]
        rows = 4
        columns = 4
        levels = [0]
        mode = "memo"
        encoding = "symbol"
        num_symbols = 4
        num_cohorts = 8
        epsilon_infinity = 3.0
        epsilon_one = 2.0
        """
    ).declared[0]
    device = MetricEncoder(metric, bytes(32), FixedRandomness(1))
    bits = device.value_bits("0-1-2")
    permanent = device.permanent_bits(bits)
    assert permanent.bit_count() == 1
    assert {device.permanent_bits(bits) for _ in range(20)} == {permanent}
    reports = Counter(int.from_bytes(device.report_bits(bits), "little") for _ in range(3000))
    assert set(reports) == {1, 2, 4, 8}
    kept = metric.params.mechanism.p2 / 65536
    assert abs(reports[permanent] / 3000 - kept) < 5 * (kept * (1 - kept) / 3000) ** 0.5
