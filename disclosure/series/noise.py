"""Mechanisms of differential privacy for numbers that their holder has in clear.

The binary digits of a geometric number are independent: for P(G = g) proportional to a^g, digit j
is 1 with probability a^(2^j) / (1 + a^(2^j)). Each digit is one comparison of 64 secure random bits
with a threshold. No logarithm of a floating-point number is taken, so that there are no gaps in
what can occur; the probability of a digit is off by 2^-64, or by a part of 2^-52 of itself. A
number is thus within 2^-46 of its law, in total variation: epsilon has a delta of that order.

For whole numbers take `add_geometric`: the low bits of a floating-point sum with Laplace noise can
tell the number (Mironov 2012), and those of Gaussian noise too. Round what the others return.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from disclosure.errors import BudgetError
from disclosure.series.budget import Charge
from disclosure.typing import Floats, Integers

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


def add_laplace(
    values: Floats, sensitivity: float, epsilon: float, rng: np.random.Generator
) -> Floats:
    """Add Laplace noise of scale sensitivity / epsilon to each value.

    sensitivity: L1, what one person can change in all values together.
    """
    _check(sensitivity, Charge(epsilon))
    return values + rng.laplace(0, sensitivity / epsilon, np.shape(values))


def add_geometric(
    counts: Integers, sensitivity: int, epsilon: float, rng: np.random.Generator | None = None
) -> Integers:
    """Add two-sided geometric noise: P(z) = (1 - a) / (1 + a) a^|z|, a = exp(-epsilon/sensitivity).

    The thesis prints (1 + a) / (1 - a), which does not sum to 1. Counts stay whole, and may be
    negative: setting those to 0 is biased upwards where most counts are small.

    rng: None draws from the system's secure randomness, as production should; a generator is for
    tests and simulations, which need the same noise again.
    """
    _check(sensitivity, Charge(epsilon))
    shape = np.shape(counts)
    if rng is None:
        rate = epsilon / sensitivity
        return counts + system_geometric(rate, shape) - system_geometric(rate, shape)
    success = -math.expm1(-epsilon / sensitivity)
    return counts + rng.geometric(success, shape) - rng.geometric(success, shape)


def geometric_variance(sensitivity: int, epsilon: float) -> float:
    """Variance of the noise of `add_geometric`: 2 a / (1 - a)^2 = 1 / (2 sinh^2(rate / 2))."""
    return 1 / (2 * math.sinh(epsilon / sensitivity / 2) ** 2)


def geometric_probability(z: Integers, sensitivity: int, epsilon: float) -> Floats:
    """P(noise = z) of `add_geometric`."""
    rate = epsilon / sensitivity
    probability: Floats = math.tanh(rate / 2) * np.exp(-rate * np.abs(z))
    return probability


def add_gaussian(
    values: Floats, sensitivity: float, charge: Charge, rng: np.random.Generator
) -> Floats:
    """Add Gaussian noise to each value; `sensitivity` is L2, over all values together."""
    sigma = gaussian_sigma(sensitivity, charge)
    return values + rng.normal(0, sigma, np.shape(values))


def gaussian_sigma(sensitivity: float, charge: Charge) -> float:
    """The least sigma for (epsilon, delta), by the exact condition (Balle and Wang 2018).

    Never above the theorem's sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon, which holds for
    epsilon < 1 only. The text on series prints it without the 2: its delta is then too large.
    """
    _check(sensitivity, charge)
    if charge.delta == 0:
        raise BudgetError("Gaussian noise needs delta > 0; take Laplace or geometric noise")
    high = 1.0
    while gaussian_delta(high, 1.0, charge.epsilon) > charge.delta:
        high *= 2
    low = high / 2
    while gaussian_delta(low, 1.0, charge.epsilon) < charge.delta:
        low /= 2

    def excess(sigma: float) -> float:
        return gaussian_delta(sigma, 1.0, charge.epsilon) / charge.delta - 1

    found = brentq(excess, low, high, xtol=1e-13 * high)
    return sensitivity * float(found) * (1 + 1e-9)


def gaussian_delta(sigma: float, sensitivity: float, epsilon: float) -> float:
    """The exact delta of Gaussian noise at an epsilon."""
    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    return float(ndtr(half - shift) - math.exp(epsilon + log_ndtr(-half - shift)))


def _check(sensitivity: float, charge: Charge) -> None:
    if not 0 < sensitivity < math.inf:
        raise BudgetError(f"sensitivity must be above 0, not {sensitivity} (for {charge})")
