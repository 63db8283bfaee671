"""Coins with probabilities that are exact over 2**16: proved by counting, at small word sizes."""

from __future__ import annotations

from itertools import product

import pytest

from client_sdk.randomization.key_derivation import system_randomness
from client_sdk.randomization.metric_encoder import CoinPair


@pytest.mark.parametrize(
    ("threshold", "num_bytes"),
    [(0, 0), (1 << 16, 0), (1 << 15, 1), (3 << 14, 2), (1 << 14, 2), (1 << 13, 3), (1, 16)],
)
def test_trailing_zeros_need_no_random_word(threshold: int, num_bytes: int) -> None:
    assert CoinPair(threshold, 0, 8).num_bytes == num_bytes


@pytest.mark.parametrize("threshold", [1 << 15, 3 << 14, 1 << 14, 7 << 13, 5 << 12, 11 << 12])
def test_the_threshold_is_the_share_of_ones(threshold: int) -> None:
    coins = CoinPair(threshold, 0, 1)
    words = list(product((0, 1), repeat=coins.num_bytes))
    ones = sum(coins.toss(1, bytes(word)) for word in words)
    assert ones * (1 << 16) == threshold * len(words)


@pytest.mark.parametrize("pair", [(3 << 14, 1 << 15), (0, 1 << 14), (1 << 16, 5 << 13), (1, 2)])
def test_each_bit_uses_its_sides_coin(pair: tuple[int, int]) -> None:
    if_one, if_zero = pair
    both = CoinPair(if_one, if_zero, 8)
    random_bytes = system_randomness(both.num_bytes)
    ones = both.toss(0xFF, random_bytes)
    zeros = both.toss(0x00, random_bytes)
    for bits in (0x0F, 0xAA, 0x81):
        assert both.toss(bits, random_bytes) == (bits & ones) | (~bits & 0xFF & zeros)


@pytest.mark.parametrize("num_bits", [1, 7, 8, 9, 128, 1000])
def test_results_stay_inside_the_word(num_bits: int) -> None:
    coins = CoinPair(1 << 16, 65535, num_bits)
    tossed = coins.toss(0, b"\xff" * coins.num_bytes)
    assert tossed == (1 << num_bits) - 1
    assert CoinPair(0, 0, num_bits).toss((1 << num_bits) - 1, b"") == 0


def test_random_bytes_have_the_size_asked_for() -> None:
    assert len(system_randomness(40)) == 40
    assert system_randomness(16) != system_randomness(16)
