"""What a check of a size finds, and what it says where it can find nothing."""

import numpy as np
import pytest

from privacy_audit.black_box.apps import most_distinct
from privacy_audit.black_box.checks import (
    Check,
    bits_off,
    chance_off,
    exact,
    one_of,
    share,
    shift,
)
from privacy_audit.black_box.freshness import equal_pairs


def test_three_in_n_is_found_95_percent() -> None:
    assert share(1_000, 0.0, 1e-6) == pytest.approx(1 - 0.05 ** (1 / 1_000), rel=0.03)
    assert share(1_000, 0.5, 1e-6) > share(100_000, 0.5, 1e-6) > 0
    assert share(3, 0.5, 1e-6) == share(0, 0.0, 1e-6) == 1.0


def test_a_shift_is_found_at_its_level() -> None:
    """5.0 standard errors for the level and 1.6 for the power."""
    assert shift(1.0, 1e-6) == pytest.approx(4.892 + 1.645, abs=0.01)


def test_a_powerless_check_is_not_run() -> None:
    for smallest in (None, one_of(0, "devices"), chance_off(0.5, 0)):
        check = exact("m", "a claim", "box", "", smallest)
        assert check.verdict(1e-6) == "not tested"
        assert exact("m", "a claim", "box", "wrong", smallest).verdict(1e-6) == "broken"
    held: Check = exact("m", "a claim", "box", "", one_of(30, "devices"))
    assert held.verdict(1e-6) == "held"
    assert held.finds(1e-6) == "a fault in 1 of 11 devices"


def test_the_fault_of_one_bit_is_named_beside_that_of_all() -> None:
    """A page said .0064 or less is found, and a bias of .01 in one bit of 128 passed."""
    all_bits, _, one_bit = bits_off(0.5, np.full(128, 2_000), 1)(1e-4).partition(" and ")
    assert all_bits == "0.0056 of the chance of all bits"
    assert one_bit == "0.075 of one bit's chance"
    assert bits_off(0.5, np.zeros(4), 1)(1e-4) == ""


def test_equal_rows_are_counted_in_pairs() -> None:
    rng = np.random.default_rng(5)
    seeds = rng.integers(0, 1 << 16, 3_000)
    weak = np.stack([np.frombuffer(np.random.default_rng(s).bytes(16), np.uint8) for s in seeds])
    strong = np.frombuffer(rng.bytes(16 * 3_000), np.uint8).reshape(3_000, 16)
    assert equal_pairs(strong) == 0
    assert 30 < equal_pairs(weak) < 120  # 68.6 expected
    assert equal_pairs(np.zeros((4, 2), np.uint8)) == 6


def test_any_encoding_without_the_secret_shows() -> None:
    """An xored value among random bytes, in all files of one kind and none of the other."""
    rng = np.random.default_rng(6)

    def files(value: bytes) -> list[bytes]:
        return [rng.bytes(3_000) + value + rng.bytes(3_000) for _ in range(16)]

    hidden = [bytes(x ^ 0x5A for x in name) for name in (b"home", b"work")]
    assert most_distinct(files(hidden[0]), files(hidden[1]), 3)[0] < 1e-6
    assert most_distinct(files(b"same"), files(b"same"), 3)[0] > 1e-3
