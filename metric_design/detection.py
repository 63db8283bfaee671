"""The probability that the decoder detects a value with a given share, to first order.

A value is detected if its score is above the quantile for a level: alpha / candidates by
Bonferroni's rule, or, by false discovery rate rules, a level that depends on the other values. If a
value has its own bit (basic RAPPOR, a boolean), the score is a binomial count. In Bloom filters and
with symbols, a value's bits in a cohort are a random vector z with covariance C, and a cohort's
observed counts have covariance S / N_j: noise of the rounds, of sampling, and tau C from the values
that the fit does not remove. By symmetry of the bits S and C share eigenvectors, so that the
information about a share is I = N * sum over eigenvalues of C / S, whatever the number of cohorts.
tau is solved for with the list (`interference`): each value adds the squared error of its share."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import bdtr, bdtrc, factorial, ndtr, ndtri

from decoder.errors import DecodeError
from decoder.estimation.ep_sites import all_may_take_part
from decoder.estimation.leave_one_out import FEW_COHORTS
from decoder.inference.multiple_testing import SHORT_LIST, STOREY_LAMBDA
from decoder.model.noise import BitNoise, RandomString
from decoder.options import DEFAULT_ALPHA
from decoder.typing import Floats
from metric_design.interference import fixed_point_sum
from rappor_core.params import RapporParams
from rappor_core.text import counted

PlannedCorrection = Literal["fdr", "bh", "bonferroni"]

PLANNED_CORRECTIONS: tuple[str, ...] = get_args(PlannedCorrection)
MIN_SHARE = 1e-12
MIN_COHORTS = 2  # Up to this number of cohorts, predictions are rough
COUNTED = 2_000  # The number of a population's values that are computed individually
_FAR_BELOW = 1e-3  # Times the level; if the smallest p-value is below this, it has no effect
_ROUNDS, _CLOSE = 200, 1e-4  # Limits for the fixed point of a level


@dataclass(frozen=True)
class PlanSetting:
    """The window of a metric whose decoding is predicted."""

    params: RapporParams
    devices: float  # Devices that report in the window
    reports_each: int  # Reports of one value per device in the window
    candidates: int  # Number of candidate values
    alpha: float = DEFAULT_ALPHA  # The decoder's level
    correction: PlannedCorrection = "fdr"

    def __post_init__(self) -> None:
        for name in ("devices", "reports_each", "candidates"):
            if not 1 <= getattr(self, name) <= 1e15:
                raise DecodeError(f"{name} = {getattr(self, name):g} is not 1 or more")
        if not 0 < self.alpha < 1:
            raise DecodeError(f"alpha = {self.alpha:g} is not between 0 and 1")
        if self.correction not in PLANNED_CORRECTIONS:
            raise DecodeError(
                f"correction = {self.correction!r} is not one of {', '.join(PLANNED_CORRECTIONS)}"
            )

    @property
    def reports(self) -> float:
        """Return the number of all reports in the window."""
        return self.devices * self.reports_each

    @property
    def first_level(self) -> float:
        """Return the p-value up to which every rule accepts a single value."""
        return self.alpha / self.candidates


class _Spectrum(NamedTuple):
    """The eigenvalues of a cohort's C and of S times N_j, each with its multiplicity."""

    of_values: Floats
    of_noise: Floats
    times: Floats


def _spectrum(setting: PlanSetting) -> _Spectrum:
    """Return the eigenvalues for a value of typical share, for shares debiased per report."""
    params, rho = setting.params, float(setting.reports_each)
    noise = BitNoise.of(params.mechanism)
    random = RandomString(params.num_bits, params.num_hashes)
    share = np.array([random.mean])
    same = float(noise.mechanism_variance(share, rho)[0])
    other = 0.0
    if params.scheme.symbols:
        pair = np.full((1, 2), random.mean)
        other = float(noise.symbol_covariance(pair, rho)[0, 0, 1])
    k = params.num_bits
    apart = random.variance - random.covariance
    along = max(random.variance + (k - 1) * random.covariance, 0.0)
    of_values = np.array([apart, along if along > 1e-12 else 0.0])
    rounds = np.array([same - other, max(same + (k - 1) * other, 1e-12)])
    return _Spectrum(of_values, rounds + rho * of_values, np.array([k - 1.0, 1.0]))


def information(setting: PlanSetting, unlisted: float = 0.0) -> float:
    """Return the Fisher information (1 / variance) about a small share; `unlisted` is tau."""
    noise = BitNoise.of(setting.params.mechanism)
    if setting.params.scheme.own_bits:
        zero = noise.mechanism_variance(np.zeros(1), float(setting.reports_each))
        return setting.reports / float(zero[0])
    spectrum = _spectrum(setting)
    each = setting.reports / setting.params.num_cohorts
    total = spectrum.of_noise + each * unlisted * spectrum.of_values
    return float(setting.reports * (spectrum.times * spectrum.of_values / total).sum())


def interference(setting: PlanSetting, shares: Floats, unlisted: float = 0.0) -> float:
    """Predict tau, the sum of squared errors that the fit of the other values leaves.

    Args:
        setting: The decoded window.
        shares: The shares of the listed values that devices hold, shape (n,).
        unlisted: The sum of squared shares of values that devices hold but the list lacks.
    """
    if setting.params.scheme.own_bits or not (shares > 0).any():
        return unlisted
    return fixed_point_sum(
        lambda tau: 1 / information(setting, tau), shares, setting.candidates, unlisted,
        full=_all_take_part(setting),
    )  # fmt: skip


def _all_take_part(setting: PlanSetting) -> bool:
    params = setting.params
    shape = params.num_cohorts, params.num_bits
    return all_may_take_part(setting.candidates, shape, params.num_hashes)


def rough_sentence(setting: PlanSetting) -> str | None:
    """Return a sentence on how inaccurate predictions are; None if simulations confirm them.

    If more candidates than bits take part, the fit explains much of the counts, and the decoder
    tests each value against a fit without it, but the theory assumes the usual test."""
    params = setting.params
    bits = params.num_cohorts * params.num_bits
    crowded = setting.candidates > bits and _all_take_part(setting)
    if params.scheme.own_bits:
        return None
    if params.num_cohorts <= MIN_COHORTS and not crowded:
        return (
            f"These predictions are rough: with {counted(params.num_cohorts, 'cohort')}, "
            "simulations detected between half and 2.5 times the predicted number of values."
        )
    if not crowded:
        return None
    return (
        f"These predictions are rough: there are more candidates ({setting.candidates:,}) than "
        f"bits in all cohorts ({bits:,}). In simulations of such lists values were found up to .11 "
        "more often than predicted, and up to .01 less often."
    )


@dataclass(frozen=True)
class Theory:
    """The effect of a list's other values on each value."""

    unlisted: float  # tau of `interference`
    level: float  # The p-value up to which a value is detected


def by_itself(setting: PlanSetting, unlisted: float = 0.0) -> Theory:
    """Return the theory for a value that is tested at the first level, whatever its list.

    `unlisted` is tau of `interference`."""
    return Theory(unlisted, setting.first_level)


def theory(setting: PlanSetting, shares: Floats, unlisted: float = 0.0) -> Theory:
    """Compute the effect of the other values of a list on each value.

    Args:
        setting: The decoded window.
        shares: The shares of the listed values, largest first, shape (n,).
        unlisted: The sum of squared shares of values that devices hold but the list lacks.
    """
    top = shares[:COUNTED]
    tau = interference(setting, top, unlisted + float((shares[COUNTED:] ** 2).sum()))
    return Theory(tau, _level(setting, top, tau))


def _level(setting: PlanSetting, shares: Floats, unlisted: float) -> float:
    """Return the level of the correction, given the expected number of values that it accepts.

    False discovery rate rules accept p-values up to alpha R / (M pi), where R of M p-values are
    accepted and a fraction pi of the values is held by no one (1 by `bh`, Storey's estimate by
    `fdr`). The largest fixed point is approached from above, counting the value in question as
    detected."""
    if setting.correction == "bonferroni":
        return setting.first_level
    candidates, others = setting.candidates, max(setting.candidates - len(shares), 0)

    def accepted(level: float) -> float:
        return float(detection(setting, shares, Theory(unlisted, level)).sum()) + others * level

    null, scheme = 1.0, setting.params.scheme
    storey = scheme.own_bits or setting.params.num_cohorts > FEW_COHORTS
    if setting.correction == "fdr" and storey and candidates >= SHORT_LIST:
        above = max(candidates - accepted(STOREY_LAMBDA), 1e-9)  # A Poisson number X, on average
        null = -above / math.expm1(-above) / ((1 - STOREY_LAMBDA) * candidates)  # By E[1 / (X + 1)]
    level = STOREY_LAMBDA
    for _ in range(_ROUNDS):
        lower = setting.alpha * (accepted(level) + 1) / (candidates * null)
        if lower >= level * (1 - _CLOSE):
            break
        level = lower
    return min(max(level, setting.first_level), STOREY_LAMBDA)


def detection(setting: PlanSetting, shares: Floats, effect: Theory) -> Floats:
    """Return the detection probability for each share, shape (n,).

    Args:
        setting: The decoded window.
        shares: The shares, in [0, 1], shape (n,).
        effect: The effect of the other values.
    """
    if setting.params.scheme.own_bits:
        return _own_bit(setting, shares, effect.level)
    level = information(setting, effect.unlisted)
    deviation = np.sqrt(1 / level + shares * (1 - shares) / setting.devices)
    needed = _needed(setting.params, effect.level)
    return np.asarray(ndtr((shares - needed / math.sqrt(level)) / deviation))


@lru_cache(maxsize=256)
def smallest_p_value(num_bits: int, num_hashes: int, num_cohorts: int) -> float:
    """Return the probability that a random string sets the h bits of a value in every cohort.

    No p-value from the decoder is smaller."""
    orders = factorial(min(num_hashes, num_bits))
    return float((orders / float(num_bits) ** num_hashes) ** num_cohorts)


def _needed(params: RapporParams, level: float) -> float:
    """Return the smallest detected estimate in standard errors, infinite if none is detected.

    The decoder computes the null variance of a score from a residual that includes the value
    itself: a true score of x is compared as x / sqrt(1 + x^2 / rows) with the normal quantile."""
    if smallest_p_value(params.num_bits, params.num_hashes, params.num_cohorts) > level:
        return math.inf
    quantile = -float(ndtri(level))
    rows = params.num_cohorts * (params.num_bits - 1)
    rest = 1 - quantile**2 / max(rows, 1)
    return quantile / math.sqrt(rest) if rest > 0 else math.inf


def floor_rank(setting: PlanSetting) -> int:
    """Return 0 if p-values can be far below the first level, 1 if they can reach it, else 2.

    If the smallest p-value is near the level, predictions are rough."""
    params = setting.params
    if params.scheme.own_bits:
        return 0
    if not math.isfinite(_needed(params, setting.first_level)):
        return 2
    smallest = smallest_p_value(params.num_bits, params.num_hashes, params.num_cohorts)
    return int(smallest > _FAR_BELOW * setting.first_level)


def _own_bit(setting: PlanSetting, shares: Floats, level: float) -> Floats:
    """Return the detection probabilities of basic RAPPOR, from the count of one bit.

    They are exact for one report per device, otherwise by a normal approximation."""
    noise, reports = BitNoise.of(setting.params.mechanism), setting.reports
    if noise.gap < 0:
        noise = BitNoise(noise.keep_one, noise.keep_zero, 1 - noise.show_one, 1 - noise.show_zero)
    chances = noise.p_star + noise.gap * shares
    if setting.reports_each == 1 and reports < 1e7:
        total = round(reports)
        return np.asarray(1 - bdtr(_least_count(level, total, noise.p_star) - 1, total, chances))
    rho = float(setting.reports_each)
    null = noise.mechanism_variance(np.zeros(1), rho) / reports
    variance = (noise.mechanism_variance(shares, rho) + rho * shares * (1 - shares)) / reports
    needed = -float(ndtri(level)) * np.sqrt(null)
    return np.asarray(ndtr((shares - needed) / np.sqrt(variance)))


@lru_cache(maxsize=1024)
def _least_count(level: float, total: int, chance: float) -> float:
    """Return the smallest number of successes with an upper tail probability <= level."""

    def enough(successes: int) -> bool:
        return bool(bdtrc(successes - 1, total, chance) <= level)

    return float(bisect_left(range(total + 2), True, key=enough))


def detectable_share(setting: PlanSetting, power: float, effect: Theory) -> float | None:
    """Return the smallest share that is detected with probability `power`, or None if none is.

    The level is at most `alpha`: if nearly all listed values are detected, false discovery rate
    rules accept p-values near 1, so that a share of 0 would be "detected".

    Args:
        setting: The decoded window.
        power: The probability of detection, in (0, 1).
        effect: The effect of the other values.
    """
    if not 0 < power < 1:
        raise DecodeError(f"power = {power:g} is not between 0 and 1")

    effect = replace(effect, level=min(effect.level, setting.alpha))

    def found(share: float) -> bool:
        return float(detection(setting, np.array([share]), effect)[0]) >= power

    if not found(1.0):
        return None
    low, high = np.log(MIN_SHARE), 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if found(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))


def half_width(setting: PlanSetting, share: float, effect: Theory) -> float:
    """Return half the width of a value's 95 % interval, without correction for selection."""
    variance = 1 / information(setting, effect.unlisted) + share * (1 - share) / setting.devices
    return 1.96 * math.sqrt(variance)
