"""Bounds on epsilon from numbers of right guesses, by exact binomial laws, and their power.

An attack guesses a world or abstains. If the worlds are drawn by a fair coin and the reports are
epsilon-indistinguishable, a guess is right with probability at most e^epsilon / (1 + e^epsilon). So
the number of right guesses among those made has a binomial tail, and the bound of Clopper and
Pearson (1934) on its chance yields a bound on epsilon.
"""

import math

import numpy as np
from scipy import stats

POWER = 0.95  # the probability with which the audit detects the faults and bounds that it states
HIGHEST = 30.0  # nats: no feasible number of trials can prove a larger bound


def lower_bound(right: int, guesses: int, level: float) -> float:
    """Return a lower bound on epsilon, in nats, that is wrong with probability at most `level`.

    It is 0 or more.
    """
    if right == 0:
        return 0.0
    share = float(stats.beta.ppf(level, right, guesses - right + 1))
    if not 0 < share < 1:
        return HIGHEST if share >= 1 else 0.0
    return max(0.0, math.log(share / (1 - share)))


def claim_p_value(right: int, guesses: int, claim: float) -> float:
    """Return the p-value: P(at least this many right guesses if the claimed epsilon holds)."""
    if guesses == 0:
        return 1.0
    return float(stats.binom.sf(right - 1, guesses, _chance(claim)))


def detectable(guesses: int, claim: float, level: float) -> float:
    """Return the smallest epsilon that this many guesses would distinguish from the claim, in nats.

    It is detected with probability `POWER` at this level. `inf` if there are too few guesses.
    """
    if guesses == 0:
        return math.inf
    needed = int(stats.binom.isf(level, guesses, _chance(claim))) + 1
    if needed > guesses:
        return math.inf
    low, high = claim, HIGHEST
    if stats.binom.sf(needed - 1, guesses, _chance(high)) < POWER:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        caught = stats.binom.sf(needed - 1, guesses, _chance(middle)) >= POWER
        low, high = (low, middle) if caught else (middle, high)
    return high


def two_sided(count: np.ndarray, total: np.ndarray, chance: np.ndarray | float) -> np.ndarray:
    """Return exact two-sided p-values of `count` in `total` trials: twice the smaller tail."""
    count = np.asarray(count, dtype=np.int64)  # signed, because unsigned 0 - 1 would overflow
    below = stats.binom.cdf(count, total, chance)
    above = stats.binom.sf(count - 1, total, chance)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)))


def count_p_value(count: int, total: int, chance: float) -> float:
    """Return `two_sided` for one count."""
    return float(two_sided(np.array(count), np.array(total), chance))


def bennett_p_value(z: float, variance: float, largest: float) -> float:
    """Bound the two-sided p-value of a sum of independent terms (Bennett 1962).

    The bound holds for any number of terms, whereas a dozen reports with rarely set bits are far
    from normal. `z` is the sum in standard deviations, `variance` is the variance of the sum, and
    `largest` is the maximum of a term.
    """
    u = abs(z) * largest / math.sqrt(max(variance, 1e-12))
    exponent = max(variance, 1e-12) / largest**2 * ((1 + u) * math.log1p(u) - u)
    return min(1.0, 2 * math.exp(-exponent))


def student_p_value(t: float, devices: int) -> float:
    """Return the two-sided p-value of a mean over devices, given in estimated standard errors.

    There may be only a dozen devices, for which a normal law would raise too many false alarms.
    """
    return float(2 * stats.t.sf(abs(t), max(devices - 1, 1)))


def _chance(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))
