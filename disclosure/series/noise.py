"""Differential privacy mechanisms for raw numbers and series.

For whole numbers use `add_geometric`: the low bits of a floating-point sum with Laplace noise can
reveal the number (Mironov 2012). Round the results of the other mechanisms. One person changes the
series, and so its coefficients, by at most `sensitivity` in L2, since an orthonormal transform
preserves lengths. The text on series scales its Fourier noise without any sensitivity, which is
correct only if each person is counted once; also, numpy's default transform is not orthonormal. The
number of coefficients is a parameter: choosing it by looking at the series breaks the guarantee."""

import math
import os
from collections.abc import Callable

import numpy as np
from scipy.fft import irfft, rfft

from disclosure.errors import BudgetError, TableError
from disclosure.series.budget import Charge
from disclosure.typing import Floats, Integers

_WORD = 64
_MIN_RATE = 1e-12  # so that the sum of two numbers and a count fits in 63 bits
_MAX_RATE = 40.0  # above it, 64 bits cannot represent the probability of any noise
RandomBytes = Callable[[int], bytes]


def system_geometric(
    rate: float, shape: tuple[int, ...], random_bytes: RandomBytes = os.urandom
) -> Integers:
    """Draw numbers G >= 0 with P(G = g) = (1 - a) a^g, a = exp(-rate).

    The binary digits of a geometric number are independent: for P(G = g) proportional to a^g, digit
    j is 1 with probability a^(2^j) / (1 + a^(2^j)). Each digit is one comparison of 64 secure
    random bits with a threshold. No logarithm of a floating-point number is computed, so every
    value can occur; the probability of a digit is off by 2^-64, or by a relative 2^-52. A number is
    thus within 2^-46 of its law, in total variation, so epsilon has a delta of that order.

    Args:
        rate: The rate in nats, above 0.
        shape: The shape of the result.
        random_bytes: A source of secure random bytes; use a different source only in tests.

    Raises:
        BudgetError: The rate is below 1e-12, or above 40.
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
    """Raise BudgetError if a rate (epsilon / sensitivity) is below 1e-12 or above 40."""
    if not rate >= _MIN_RATE:
        raise BudgetError(f"epsilon / sensitivity = {rate:g} is below {_MIN_RATE:g}")
    if rate > _MAX_RATE:
        raise BudgetError(f"epsilon / sensitivity = {rate:g} is above {_MAX_RATE:g}: no noise")


def _threshold(exponent: float) -> int:
    """Return 2^64 times the probability of a digit, 1 / (1 + exp(exponent)), rounded."""
    if exponent > _WORD:
        return 0
    return round(2.0**_WORD / (1 + math.exp(exponent)))


def add_laplace(
    values: Floats, sensitivity: float, epsilon: float, rng: np.random.Generator
) -> Floats:
    """Add Laplace noise of scale sensitivity / epsilon to each value.

    The L1 sensitivity is the maximum change by one person in all values together."""
    _check(sensitivity, epsilon)
    return values + rng.laplace(0, sensitivity / epsilon, np.shape(values))


def add_geometric(
    counts: Integers, sensitivity: int, epsilon: float, rng: np.random.Generator | None = None
) -> Integers:
    """Add two-sided geometric noise: P(z) = (1 - a) / (1 + a) a^|z|, a = exp(-epsilon/sensitivity).

    The thesis prints (1 + a) / (1 - a), which does not sum to 1. Counts stay whole, and may become
    negative; setting negative counts to 0 would be biased upward if most counts are small. Without
    `rng`, noise is from the system's secure randomness, as required in production; a generator is
    for tests and simulations, which need reproducible noise."""
    _check(sensitivity, epsilon)
    shape = np.shape(counts)
    if rng is None:
        rate = epsilon / sensitivity
        return counts + system_geometric(rate, shape) - system_geometric(rate, shape)
    success = -math.expm1(-epsilon / sensitivity)
    return counts + rng.geometric(success, shape) - rng.geometric(success, shape)


def geometric_variance(sensitivity: int, epsilon: float) -> float:
    """Return the variance of `add_geometric`: 2 a / (1 - a)^2 = 1 / (2 sinh^2(rate / 2))."""
    return 1 / (2 * math.sinh(epsilon / sensitivity / 2) ** 2)


def _check(sensitivity: float, epsilon: float) -> None:
    charge = Charge(epsilon)
    if not 0 < sensitivity < math.inf:
        raise BudgetError(f"sensitivity must be above 0, not {sensitivity} (for {charge})")


def bound_contributions(
    persons: Integers, slots: Integers, num_slots: int, max_slots: int, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Count people in each slot, each person in at most `max_slots` random slots.

    `persons` and `slots` are (events,). Returns counts (num_slots,) and the L2 sensitivity
    sqrt(max_slots). Raises TableError for slots outside [0, num_slots), or max_slots below 1."""
    if max_slots < 1 or len(persons) != len(slots):
        raise TableError(f"max_slots {max_slots}; {len(persons)} persons, {len(slots)} slots")
    if len(slots) and not (slots.min() >= 0 and slots.max() < num_slots):
        raise TableError(f"slots must lie in [0, {num_slots})")
    who = np.unique(persons, return_inverse=True)[1].ravel()
    pairs = np.unique(np.column_stack([who, slots]), axis=0)
    pairs = rng.permutation(pairs)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[:1, 0] - 1))
    rank = np.arange(len(pairs)) - np.repeat(starts, np.diff([*starts, len(pairs)]))
    used = pairs[rank < max_slots, 1]
    return np.bincount(used, minlength=num_slots), math.sqrt(max_slots)


def perturb_by_fourier_laplace(
    series: Floats, kept: int, sensitivity: float, epsilon: float, rng: np.random.Generator
) -> Floats:
    """Perturb a series by FPA, with Laplace noise of scale sqrt(kept) sensitivity / epsilon.

    See Rastogi and Nath 2010. The coefficients are real: mean, then cosine and sine of each
    frequency."""
    coefficients = _first(_real_fourier(series), kept)
    l1 = math.sqrt(kept) * sensitivity
    coefficients[:kept] = add_laplace(coefficients[:kept], l1, epsilon, rng)
    return _from_real_fourier(coefficients)


def _first(coefficients: Floats, kept: int) -> Floats:
    if not 1 <= kept <= len(coefficients):
        raise TableError(f"kept must be in 1 to {len(coefficients)}, not {kept}")
    return np.where(np.arange(len(coefficients)) < kept, coefficients, 0.0)


def _real_fourier(series: Floats) -> Floats:
    """Return the orthonormal real Fourier coefficients, (n,) -> (n,)."""
    values = rfft(np.asarray(series, dtype=float), norm="ortho")
    pairs = np.sqrt(2) * np.column_stack([values.real, values.imag])[1:].ravel()
    if len(series) % 2 == 0:
        pairs = np.append(pairs[:-2], values[-1].real)
    return np.append(values[:1].real, pairs)


def _from_real_fourier(coefficients: Floats) -> Floats:
    n = len(coefficients)
    values = np.zeros(n // 2 + 1, dtype=complex)
    values[0] = coefficients[0]
    pairs = coefficients[1 : n - (n % 2 == 0)].reshape(-1, 2) / np.sqrt(2)
    values[1 : len(pairs) + 1] = pairs[:, 0] + 1j * pairs[:, 1]
    if n % 2 == 0:
        values[-1] = coefficients[-1]
    back: Floats = irfft(values, n, norm="ortho")
    return back
