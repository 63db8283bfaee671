"""The probability that a value of a given share is found: first-order theory of the decoder.

A value is found whose score is above the quantile of a level: alpha / candidates by Bonferroni's
rule, and by the rules of false discovery rates what the other values of the list leave
(`list_levels`). With
a bit of its own (basic RAPPOR, a boolean) the score is a binomial count. In Bloom filters and with
symbols, a value's bits in a cohort are a random vector z of covariance C, and what is seen of a
cohort has covariance S / N_j: noise of the rounds, of sampling, and tau C from the values that are
not removed by the fit. By symmetry of the bits S and C share eigenvectors, so that the information
on a share is I = N * sum over eigenvalues of C / S, whatever the number of cohorts. tau is solved
for with the list (`interference`): each value adds what the fit cannot tell of its share. What few
cohorts prevent whatever the share is in `few_cohorts`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, ndtr, ndtri

from decoder.errors import DecodeError
from decoder.estimation.leave_one_out import FEW_COHORTS
from decoder.model.fit_work import all_may_take_part
from decoder.model.noise import BitNoise, RandomString
from decoder.typing import Floats
from metric_design.few_cohorts import (
    floor_sentence,
    least_score,
    listed_deviates,
    smallest_p_value,
    unmistaken,
)
from metric_design.interference import fixed_point_sum
from metric_design.list_levels import draw_lists, list_levels
from metric_design.request import PLANNED_CORRECTIONS, PlannedCorrection, PlanRequest
from rappor_core.params import RapporParams
from rappor_core.text import counted

LEAST_SHARE = 1e-12
FEWEST = 2  # cohorts up to which predictions are rough
COUNTED = 2_000  # values of a population that are looked at one by one


@dataclass(frozen=True)
class PlanSetting:
    """The window of a metric whose decoding is predicted.

    params: of the metric.  devices: that report in it.  reports_each: reports of one value that
    each of them sends in the window.  candidates: values looked for.  alpha, correction: of the
    decoder.
    """

    params: RapporParams
    devices: float
    reports_each: int
    candidates: int
    alpha: float = 0.05
    correction: PlannedCorrection = "fdr"

    def __post_init__(self) -> None:
        """Refuse what no window can be."""
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
        """Number of all reports of the window."""
        return self.devices * self.reports_each

    @property
    def first_level(self) -> float:
        """The p-value at or below which a single value of the list is found: that of every rule."""
        return self.alpha / self.candidates


class _Spectrum(NamedTuple):
    """Eigenvalues of a cohort's covariances: of C, and of S times N_j; and how many alike."""

    of_values: Floats
    of_noise: Floats
    times: Floats


def _spectrum(setting: PlanSetting) -> _Spectrum:
    """Bits of a typical share, in units of the debiased share of a report."""
    params, rho = setting.params, float(setting.reports_each)
    noise = BitNoise.of(params.mechanism)
    random = RandomString(params.num_bits, params.num_hashes)
    share = np.array([random.mean])
    own = float(noise.mechanism_variance(share, rho)[0])
    other = 0.0
    if params.scheme.symbols:
        pair = np.full((1, 2), random.mean)
        other = float(noise.symbol_covariance(pair, rho)[0, 0, 1])
    k = params.num_bits
    apart = random.variance - random.covariance
    along = max(random.variance + (k - 1) * random.covariance, 0.0)
    of_values = np.array([apart, along if along > 1e-12 else 0.0])
    rounds = np.array([own - other, max(own + (k - 1) * other, 1e-12)])
    return _Spectrum(of_values, rounds + rho * of_values, np.array([k - 1.0, 1.0]))


def information(setting: PlanSetting, unlisted: float = 0.0) -> float:
    """Fisher information (1 / variance) about a small share; `unlisted` is tau, a sum of
    squares."""
    noise = BitNoise.of(setting.params.mechanism)
    if setting.params.scheme.own_bits:
        zero = noise.mechanism_variance(np.zeros(1), float(setting.reports_each))
        return setting.reports / float(zero[0])
    spectrum = _spectrum(setting)
    each = setting.reports / setting.params.num_cohorts
    total = spectrum.of_noise + each * unlisted * spectrum.of_values
    return float(setting.reports * (spectrum.times * spectrum.of_values / total).sum())


def interference(setting: PlanSetting, shares: Floats, unlisted: float = 0.0) -> float:
    """Predict tau, the sum of squared errors of shares that the fit of the other values leaves
    as noise.

    Args:
        setting: what is decoded.
        shares: of the listed values that somebody holds, (n,).
        unlisted: sum of squared shares of values that are held and not listed.
    """
    if setting.params.scheme.own_bits or not (shares > 0).any():
        return unlisted
    return fixed_point_sum(
        lambda left: 1 / information(setting, left), shares, setting.candidates, unlisted,
        full=_all_take_part(setting),
    )  # fmt: skip


def _all_take_part(setting: PlanSetting) -> bool:
    """Whether the decoder's fit takes all candidates (`FitProblem.full` of its estimation)."""
    params = setting.params
    shape = params.num_cohorts, params.num_bits
    return all_may_take_part(setting.candidates, shape, params.num_hashes)


def rough_sentence(setting: PlanSetting) -> str | None:
    """Say that predictions are rough, and by how much; None where simulations bear them out.

    Where more candidates than bits take part, much of the counts is fitted, and the decoder tests
    each value against a fit that never saw it; the theory takes the test of the usual fit.
    """
    params = setting.params
    bits = params.num_cohorts * params.num_bits
    crowded = setting.candidates > bits and _all_take_part(setting)
    if params.scheme.own_bits:
        return None
    if params.num_cohorts <= FEWEST and not crowded:
        return (
            f"These predictions are rough: in {counted(params.num_cohorts, 'cohort')} simulations "
            "found from half of the values predicted to two and a half times as many."
        )
    if not crowded:
        return None
    return (
        f"These predictions are rough: there are more candidates ({setting.candidates:,}) than "
        f"bits in all cohorts ({bits:,}). In simulations of such lists values were found up to .11 "
        "more often than predicted, and up to .01 less often."
    )


def clear(setting: PlanSetting, shares: Floats, unlisted: float = 0.0) -> float:
    """Probability that no other candidate looks like a given value; 1 but for few cohorts.

    Args:
        setting: what is decoded.
        shares: of the values that somebody holds, (n,).
        unlisted: tau of `interference`.
    """
    if setting.params.scheme.own_bits:
        return 1.0
    standing_out = int((shares**2 * information(setting, unlisted) > 1).sum())
    return unmistaken(setting.params, setting.candidates, standing_out)


@dataclass(frozen=True)
class Theory:
    """What the other values of a list do to each one.

    unlisted: tau of `interference`.  clear: of the function of this name.  levels: p-values at or
    below which a value is found, in lists that are drawn, (draws,).
    """

    unlisted: float
    clear: float
    levels: Floats


def by_itself(setting: PlanSetting, unlisted: float = 0.0) -> Theory:
    """The theory of a value that is tested at the first level, whatever else is found.

    unlisted: tau of `interference`.
    """
    return Theory(unlisted, 1.0, np.array([setting.first_level]))


def theory(setting: PlanSetting, shares: Floats, unlisted: float = 0.0) -> Theory:
    """Work out what the values of a list do to each one.

    Args:
        setting: what is decoded.
        shares: of the listed values, largest first, (n,).
        unlisted: sum of squared shares of values that are held and not listed.
    """
    held = shares[:COUNTED]
    left = interference(setting, held, unlisted + float((shares[COUNTED:] ** 2).sum()))
    alone = clear(setting, held, left)
    return Theory(left, alone, _levels(setting, held, left, alone))


def _levels(setting: PlanSetting, held: Floats, left: float, alone: float) -> Floats:
    """The levels of lists, with the value between seen and unseen taken for found."""
    if setting.correction == "bonferroni":
        return np.array([setting.first_level])
    level = information(setting, left)
    spread = np.sqrt(1 / level + held * (1 - held) / setting.devices)
    lists = draw_lists(held * math.sqrt(level), spread * math.sqrt(level), setting.candidates)
    p = np.where(lists.lot < alone, _p_values(setting, lists.scores), 1.0)
    params, rule = setting.params, (setting.candidates, setting.alpha)
    storey = setting.correction == "fdr" and (
        params.scheme.own_bits or params.num_cohorts > FEW_COHORTS
    )
    first = Theory(left, alone, list_levels(p, lists, *rule, storey=storey))
    chances = detection(setting, held, first)
    middle = int(np.abs(chances - alone / 2).argmin())
    p[middle] = 0.0
    return list_levels(p, lists, *rule, storey=storey)


def _p_values(setting: PlanSetting, scores: Floats) -> Floats:
    """The decoder's p-values of true scores, as `_needed` has them."""
    params = setting.params
    if params.scheme.own_bits:
        return np.asarray(ndtr(-scores))
    shape = params.num_bits, params.num_hashes, params.num_cohorts
    curve = listed_deviates(*shape) if least_score(*shape, setting.first_level) else None
    if curve is not None:
        listed = np.interp(np.log(np.maximum(scores, 1e-9)), np.log(curve[0]), curve[1])
        return np.asarray(ndtr(-np.where(scores > curve[0][0], listed, scores)))
    rows = max(params.num_cohorts * (params.num_bits - 1), 1)
    return np.asarray(ndtr(-scores / np.sqrt(1 + scores**2 / rows)))


def detection(setting: PlanSetting, shares: Floats, given: Theory) -> Floats:
    """Probability that a value of each share is found, (n,).

    Args:
        setting: what is decoded.
        shares: in [0, 1], (n,).
        given: what the other values do.
    """
    if setting.params.scheme.own_bits:
        levels, times = np.unique(given.levels, return_counts=True)
        chances = [_own_bit(setting, shares, level) for level in levels]
        return np.asarray(np.average(chances, axis=0, weights=times))
    level = information(setting, given.unlisted)
    deviation = np.sqrt(1 / level + shares * (1 - shares) / setting.devices)
    needed = np.array([_needed(setting.params, one) for one in given.levels])
    scores = (shares[:, None] - needed / np.sqrt(level)) / deviation[:, None]
    return np.asarray(given.clear * ndtr(scores).mean(axis=1))


def _needed(params: RapporParams, level: float) -> float:
    """The least estimate that is found, in its standard errors; infinite where none is.

    The decoder reads the null variance of a score from a residual that holds the value itself: a
    true score of x is compared as x / sqrt(1 + x^2 / rows) with the normal quantile. Where few
    cohorts keep p-values from being small, with the distribution that the decoder lists.
    """
    listed = least_score(params.num_bits, params.num_hashes, params.num_cohorts, level)
    if listed is not None:
        return listed
    quantile = -float(ndtri(level))
    rows = params.num_cohorts * (params.num_bits - 1)
    left = 1 - quantile**2 / max(rows, 1)
    return quantile / math.sqrt(left) if left > 0 else math.inf


def few_enough(setting: PlanSetting) -> bool:
    """Whether the smallest p-value passes the correction for the whole list: quick, and needed for
    `can_be_found`."""
    params = setting.params
    shape = params.num_bits, params.num_hashes, params.num_cohorts
    return params.scheme.own_bits or smallest_p_value(*shape) <= setting.first_level


def can_be_found(setting: PlanSetting) -> bool:
    """Whether any p-value can be small enough to pass the correction for the whole list."""
    params = setting.params
    return params.scheme.own_bits or math.isfinite(_needed(params, setting.first_level))


def why_nothing(request: PlanRequest, setting: PlanSetting | None) -> str:
    """Say why no share is found.

    Args:
        request: with every number.
        setting: of the best design; None where there is none.
    """
    floor = None
    if setting is not None and not setting.params.scheme.own_bits:
        floor = floor_sentence(setting.params, setting.first_level)
    return floor or (
        f"with {request.devices:,.0f} devices no share, not even 1, is found with power "
        f"{request.power:g}: use more devices, more epsilon, or fewer candidates"
    )


def _own_bit(setting: PlanSetting, shares: Floats, level: float) -> Floats:
    """Basic RAPPOR: the count of one bit; exact for one report a device, else nearly normal."""
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
    """The least number of successes that as many or more of `total` trials have with probability
    <= level."""

    def enough(successes: int) -> bool:
        return bool(bdtrc(successes - 1, total, chance) <= level)

    return float(bisect_left(range(total + 2), True, key=enough))


def detectable_share(setting: PlanSetting, power: float, given: Theory) -> float | None:
    """The smallest share that is found with probability `power`; None if even a share of 1 is not.

    By levels up to `alpha`: where next to all values of a list are found, rules of false discovery
    rates accept p-values near 1, so that what nobody holds would be "seen".

    Args:
        setting: what is decoded.
        power: in (0, 1).
        given: what the other values do.
    """
    if not 0 < power < 1:
        raise DecodeError(f"power = {power:g} is not between 0 and 1")

    given = replace(given, levels=np.minimum(given.levels, setting.alpha))

    def found(share: float) -> bool:
        return float(detection(setting, np.array([share]), given)[0]) >= power

    if not found(1.0):
        return None
    low, high = np.log(LEAST_SHARE), 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if found(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))


def expected_found(
    setting: PlanSetting, shares: Floats, unlisted: float = 0.0
) -> tuple[float, Floats]:
    """Expected number of values found, and the probability of each to be found, (n,)."""
    chances = detection(setting, shares, theory(setting, shares, unlisted))
    return float(chances.sum()), chances


def half_width(setting: PlanSetting, share: float, given: Theory) -> float:
    """Half of the width of a 95 % interval of a value, before it allows for the choice."""
    variance = 1 / information(setting, given.unlisted) + share * (1 - share) / setting.devices
    return 1.96 * math.sqrt(variance)
