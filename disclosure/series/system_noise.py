"""Geometric noise from the secure randomness of the system, for production.

The binary digits of a geometric number are independent: for P(G = g) proportional to a^g, digit j
is 1 with probability a^(2^j) / (1 + a^(2^j)). Each digit is one comparison of 64 secure random bits
with a threshold. No logarithm of a floating-point number is taken, so that there are no gaps in
what can occur; the probability of a digit is off by 2^-64, or by a part of 2^-52 of itself. A
number is thus within 2^-46 of its law, in total variation: epsilon has a delta of that order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np

from disclosure.errors import BudgetError
from disclosure.typing import Integers

_WORD = 64
_LEAST_RATE = 1e-12  # the sum of two numbers and a count fits 63 bits
_MOST_RATE = 40.0  # beyond, 64 bits hold the chance of any noise badly, and soon not at all
RandomBytes = Callable[[int], bytes]


def system_geometric(
    rate: float, shape: tuple[int, ...], random_bytes: RandomBytes = os.urandom
) -> Integers:
    """Draw numbers G >= 0 with P(G = g) = (1 - a) a^g, a = exp(-rate).

    Args:
        rate: above 0, nats.
        shape: of the result.
        random_bytes: bytes of secure randomness; another source in tests only.

    Raises:
        BudgetError: the rate is below 1e-12, or above 40.
    """
    check_rate(rate)
    drawn = np.zeros(shape, dtype=np.int64)
    digit = 0
    while (threshold := _threshold(rate * 2.0**digit)) > 0:
        words = np.frombuffer(random_bytes(8 * drawn.size), dtype="<u8").reshape(shape)
        drawn += (words < np.uint64(threshold)).astype(np.int64) << digit
        digit += 1
    return drawn


def check_rate(rate: float) -> None:
    """Raises BudgetError for a rate, epsilon / sensitivity, below 1e-12 or above 40."""
    if not rate >= _LEAST_RATE:
        raise BudgetError(f"epsilon / sensitivity = {rate:g} is below {_LEAST_RATE:g}")
    if rate > _MOST_RATE:
        raise BudgetError(f"epsilon / sensitivity = {rate:g} is above {_MOST_RATE:g}: no noise")


def _threshold(exponent: float) -> int:
    """2^64 times the probability of a digit, 1 / (1 + exp(exponent)), rounded."""
    if exponent > _WORD:
        return 0
    return round(2.0**_WORD / (1 + math.exp(exponent)))
