"""Simulated responses of devices, and how well a permanent response explains what was shown."""

import numpy as np
from numpy.typing import NDArray

from rappor_core.params import RapporParams

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEAST = 1e-300  # of a chance whose logarithm is taken


def draw_permanent(bits: Integers, params: RapporParams, rng: np.random.Generator) -> Integers:
    """Draw the permanent responses of devices, (n, k), whose values set the given bits, (h, n)."""
    keep, lie, _, _ = params.mechanism.rates
    n, k = bits.shape[1], params.num_bits
    rows = np.arange(n)
    if params.scheme.symbols:
        drawn = np.zeros((n, k), dtype=np.int64)
        shift = np.where(rng.random(n) < keep, 0, rng.integers(1, k, size=n))
        drawn[rows, (bits[0] + shift) % k] = 1
        return drawn
    chance = np.full((n, k), lie)
    chance[rows, bits] = keep
    return (rng.random((n, k)) < chance).astype(np.int64)


def draw_shown(
    permanent: Integers, reports: int, params: RapporParams, rng: np.random.Generator
) -> Integers:
    """Draw how often each bit is set in reports with these permanent bits, (n, k)."""
    _, _, show, hide = params.mechanism.rates
    if params.scheme.symbols:
        chances = np.where(permanent == 1, 1 - (params.num_bits - 1) * hide, hide)
        return np.asarray(rng.multinomial(reports, chances))
    return np.asarray(rng.binomial(reports, np.where(permanent == 1, show, hide)))


def log_shown(params: RapporParams, counts: Integers | Floats, reports: int) -> Floats:
    """Log likelihood of counts, by permanent state.

    Args:
        params: Of the metric.
        counts: How often each bit was set, (..., k).
        reports: In which they were counted.

    Returns:
        Of a bit that is clear and one that is set, (..., k, 2); or of each symbol, (..., 1, k).
    """
    _, _, p2, q2 = params.mechanism.rates
    if params.scheme.symbols:
        return np.asarray(counts * ln(p2) + (reports - counts) * ln(q2))[..., None, :]
    by_state = [counts * ln(x) + (reports - counts) * ln(1 - x) for x in (q2, p2)]
    return np.stack(by_state, axis=-1)


def state_chances(params: RapporParams, value: Integers | None = None) -> Floats:
    """Chances of the states of `log_shown`, (k, 2) or (1, k).

    value: the bits that it sets; None for a random value.
    """
    (p1, q1, _, _), k = params.mechanism.rates, params.num_bits
    if params.scheme.symbols:
        chances = np.full((1, k), 1 / k if value is None else (1 - p1) / (k - 1))
        if value is not None:
            chances[0, value[0]] = p1
        return chances
    ones = 1 - (1 - 1 / k) ** params.num_hashes  # P(B = 1), of random values
    chance = np.full(k, p1 * ones + q1 * (1 - ones) if value is None else q1)
    if value is not None:
        chance[value] = p1
    return np.stack([1 - chance, chance], axis=-1)


def log_evidence(
    params: RapporParams, counts: Integers | Floats, reports: int, value: Integers | None = None
) -> Floats:
    """Log likelihood of counts (..., k) that share one permanent response of a value, (...)."""
    with np.errstate(divide="ignore"):
        states = log_shown(params, counts, reports) + np.log(state_chances(params, value))
    if params.scheme.symbols:
        return np.asarray(np.logaddexp.reduce(states[..., 0, :], axis=-1))
    return np.asarray(np.logaddexp(states[..., 0], states[..., 1]).sum(axis=-1))


def ln(chance: float) -> float:
    """The logarithm of a chance, finite for 0."""
    return float(np.log(max(chance, _LEAST)))
