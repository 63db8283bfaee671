"""Limits of few cohorts: p-values that cannot be small, and candidates that cannot be told from
a value.

A p-value of the decoder is at least the chance that a string nobody holds sets the same bits in
every cohort. Where that chance is near the level asked for, or above it, even a large score is not
evidence enough. And in a single cohort another candidate may set one bit of a value and, with its
other bits, those of other values: the fit cannot tell which of the two is held. (A second cohort
tells: there the other values stand out by themselves, and have no need of that candidate.)
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import factorial, ndtri

from decoder.model.exact_null import can_be_listed
from decoder.model.noise import RandomString
from decoder.model.null_distribution import null_tail
from decoder.typing import Floats
from rappor_core.params import RapporParams

WORTH_SAYING = 0.01  # chance that a value is mistaken
NEAR = 1e-3  # of the level: a smallest p-value below it changes nothing
ROUGH = "The number expected is rough: simulations found between half and three times as many."
_LEAST, _MOST, _POINTS = 0.1, 1e4, 48  # standard errors


@lru_cache(maxsize=256)
def smallest_p_value(num_bits: int, num_hashes: int, num_cohorts: int) -> float:
    """The chance that a random string sets the h bits of a value, in every cohort."""
    orders = factorial(min(num_hashes, num_bits))
    return float((orders / float(num_bits) ** num_hashes) ** num_cohorts)


def least_score(num_bits: int, num_hashes: int, num_cohorts: int, level: float) -> float | None:
    """The least estimate whose p-value reaches `level`, in standard errors; infinite if none does.

    None where the decoder does not list sets of bits, or the smallest p-value is far below the
    level.
    """
    if smallest_p_value(num_bits, num_hashes, num_cohorts) < NEAR * level:
        return None
    curve = listed_deviates(num_bits, num_hashes, num_cohorts)
    if curve is None:
        return None
    scores, deviates = curve
    needed = -float(ndtri(level))
    if deviates[-1] < needed:
        return math.inf
    return math.exp(float(np.interp(needed, deviates, np.log(scores))))


@lru_cache(maxsize=256)
def listed_deviates(
    num_bits: int, num_hashes: int, num_cohorts: int
) -> tuple[Floats, Floats] | None:
    """Estimates in standard errors, and the normal deviates of their p-values, both (n,),
    increasing.

    Read from the decoder's own null distribution (`null_tail`) of a typical residual. None where
    the decoder does not list sets of bits.
    """
    random = RandomString(num_bits, num_hashes)
    if not can_be_listed(num_cohorts, random):
        return None
    others = _noise(num_bits - num_hashes, num_cohorts)
    scores = np.geomspace(_LEAST, _MOST, _POINTS)
    deviates = np.array([_deviate(score, others, random) for score in scores])
    return scores, np.maximum.accumulate(deviates)


def _noise(others: int, cohorts: int) -> Floats:
    """Quantiles of the normal law, dealt over the bits that are not the value's: (m, others)."""
    number = others * cohorts
    levels = (np.arange(number) + 0.5) / max(number, 1)
    return np.random.default_rng(0).permutation(np.asarray(ndtri(levels))).reshape(cohorts, others)


def _deviate(estimate: float, others: Floats, random: RandomString) -> float:
    """Normal deviate of a value's test. estimate: in standard errors; the noise of its bits in it.

    others: residual of the other bits, in units of their noise.
    """
    cohorts, h, k = len(others), random.num_hashes, random.num_bits
    height = estimate / math.sqrt(cohorts * h * (1 - h / k))
    residual = np.concatenate([np.full((cohorts, h), height), others], axis=1)
    residual -= residual.mean(axis=1, keepdims=True)  # what is common to a cohort says nothing
    score = residual[:, :h].sum()
    variance = (random.variance - random.covariance) * (residual**2).sum()
    return float(null_tail(residual, random).deviate(np.array([score / math.sqrt(variance)]))[0])


def unmistaken(params: RapporParams, candidates: int, standing_out: int) -> float:
    """Probability that the fit can tell a given value from every other candidate.

    One does if, in a single cohort, it sets a bit of the value and no bit that is not of some value
    that stands out: Poisson, for independent strings. 1 for several cohorts.

    Args:
        params: with a Bloom filter or symbols.
        candidates: length of the list.
        standing_out: values that are held by more than a standard error of their share.
    """
    k, h = params.num_bits, params.num_hashes
    if params.num_cohorts > 1:
        return 1.0
    crowd = h * max(standing_out, 1)
    lit = max(k * -math.expm1(crowd * math.log1p(-1 / k)), float(h)) if k > 1 else 1.0
    chance = (lit / k) ** h - (max(lit - h, 0.0) / k) ** h
    return math.exp(-(candidates - 1) * chance)


def few_cohorts_sentence(params: RapporParams, clear: float) -> str | None:
    """Say how many values are not found however frequent they are; None where next to none.

    Args:
        params: of the metric.
        clear: probability that no other candidate looks like a given value.
    """
    if 1 - clear < WORTH_SAYING:
        return None
    return (
        f"With a single cohort of {params.num_bits} bits about {1 - clear:.0%} of values are not "
        "found, however frequent they are: another candidate sets bits of theirs and, beside them, "
        f"only bits of other values. {ROUGH} Two cohorts tell them apart; more bits or a shorter "
        "list help."
    )


def floor_sentence(params: RapporParams, level: float) -> str | None:
    """Say that no p-value can reach the level; None where one can."""
    shape = params.num_bits, params.num_hashes, params.num_cohorts
    if least_score(*shape, level) != math.inf:
        return None
    return (
        f"no p-value can reach the {level:.2g} that the list asks for: one string in "
        f"{1 / smallest_p_value(*shape):,.0f} sets the same bits in all cohorts "
        f"({params.num_cohorts}); use more cohorts (more devices), more bytes, or fewer candidates"
    )
