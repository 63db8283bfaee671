"""The search for strings, which extends prefixes level by level and keeps the most probable.

Then the shares of the strings are estimated from groups of cohorts that were not used to find them.
A prefix whose code has ended is a string, and leaves the search (PEM, Wang, Li, Jha 2017,
arXiv:1708.06674, over a compressed code). A string that ended at level l was chosen by groups up to
l; each later group, including the last group, which is only for counting, is new data about it. So
no estimate is biased by the search. The fraction of alpha that is spent at level l also depends
only on the groups up to l."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc, ndtr

from decoder.discovery.bucket_shares import GroupShares, Prefixes, best_extensions
from decoder.model.noise import BitNoise
from decoder.progress import Progress, silent
from decoder.typing import Flags, Floats, Indices
from rappor_core.codes.prefix_groups import PrefixGroups


def text_of(data: bytes, *, whole: bool) -> str | None:
    """Decode bytes as UTF-8; return None if they are invalid.

    A truncated last character is dropped unless the bytes are the whole string."""
    try:
        return getincrementaldecoder("utf-8")().decode(data, whole)
    except UnicodeDecodeError:
        return None


STAGE = "extending prefixes"
BEAM = 96  # the number of prefixes that are extended at each level
FITTED = 3 * BEAM  # the number of prefixes in the pursuit from which the beam is chosen
MIN_SCORE = 2.8
SCORE_STEP = 0.4
MAX_SCORED = 100_000
HALF_SCORE = 0.35
MIN_Z = 2.0
PARENT_WEIGHT = 0.5
PARENT_LEAD = 1.5  # the parents' mean score is capped at this much above the prefix's own score


@dataclass(frozen=True)
class CompletedString:
    """A string that the search found."""

    bits: int  # Its whole code, with zeros after END
    data: bytes  # The string's bytes, as far as the bits determine them
    whole: bool  # Whether END was read
    level: int  # The last group that was used to choose the string


def search(
    groups: PrefixGroups, levels: Sequence[GroupShares], progress: Progress = silent
) -> list[CompletedString]:
    """Find the strings whose code ends, and the prefixes that remain at the last level.

    Args:
        groups: The prefix groups of the metric.
        levels: The bucket shares of each group except the last, which is only for counting.
        progress: A callback, called for each level.
    """
    prefixes, parents = np.zeros(1, dtype=np.uint64), np.zeros(1)
    finished: list[CompletedString] = []
    for level, group in enumerate(levels):
        progress(STAGE, level, len(levels))
        if not len(prefixes):
            break
        bits, ancestry = _extended(groups, level, group, prefixes, parents)
        going = []
        for place, prefix in enumerate(bits.tolist()):
            decoded = groups.code.decode(prefix, group.num_bits)
            if decoded.ended or level + 1 == groups.num_levels:
                tail = groups.code_bits - group.num_bits
                finished.append(CompletedString(prefix << tail, decoded.data, decoded.ended, level))
            else:
                going.append(place)
        prefixes, parents = bits[going], ancestry[going]
    progress(STAGE, len(levels), len(levels))
    return finished


def _extended(
    groups: PrefixGroups, level: int, group: GroupShares, prefixes: Prefixes, parents: Floats
) -> tuple[Prefixes, Floats]:
    """Extend prefixes by one level; return the kept ones and their mean scores over all levels."""
    least = MIN_SCORE
    origins, bits, values = best_extensions(
        prefixes, group.num_bits, groups.bits_per_level, group.cohorts, group.scores(), least,
        HALF_SCORE
    )  # fmt: skip
    while (values >= least).sum() > MAX_SCORED:
        least += SCORE_STEP
    high = values >= least
    origins, bits, values = origins[high], bits[high], values[high]

    def rank(z_scores: Floats) -> Floats:
        ahead = np.minimum(parents[origins], z_scores + PARENT_LEAD)
        return z_scores + PARENT_WEIGHT * ahead if level else z_scores

    chosen: list[int] = []  # the best prefixes whose bits a string can have
    for place in np.argsort(-rank(values)).tolist():
        decoded = groups.code.decode(int(bits[place]), group.num_bits)
        if decoded.valid and text_of(decoded.data, whole=decoded.ended) is not None:
            chosen.append(place)
            if len(chosen) == FITTED:
                break
    bits, origins = bits[chosen], origins[chosen]
    if not len(bits):
        return bits, np.zeros(0)
    z = group.pursue(bits, BEAM)
    best = [place for place in np.argsort(-rank(z))[:BEAM] if z[place] > MIN_Z]
    mean = (parents[origins] * level + z) / (level + 1)
    return bits[best], mean[best]


class LevelDecision(NamedTuple):
    """The decision on each string by Holm's rule within each level, (M,)."""

    detected: Flags
    adjusted: Floats
    bounds: Floats  # The p-value at which a string is detected regardless of the others


def decide_by_level(
    p_values: Floats, levels: Indices, num_levels: int, alpha: float
) -> LevelDecision:
    """Decide so that the probability of detecting any string that no one has is at most alpha.

    Level l uses the fraction c_l of alpha. Given the groups up to l, Holm's rule at c_l alpha errs
    with at most that probability. The fractions sum to at most 1. c_l = r_l T_l / (T_l + BEAM),
    where T_l strings ended at l and r_l is left by earlier levels; the last level uses the rest.

    Args:
        p_values: The p-values (M,), from groups that were not used to choose the string.
        levels: The last group (M,) that was used to choose each string, below num_levels.
        num_levels: The number of levels of the search.
        alpha: The error level, in (0, 1).
    """
    adjusted, bounds = np.ones(len(p_values)), np.zeros(len(p_values))
    rest = 1.0
    for level in range(num_levels):
        members = levels == level
        size = int(members.sum())
        if not size:
            continue
        part = rest if level + 1 == num_levels else rest * size / (size + BEAM)
        rest -= part
        among_own = _holm(p_values[members])
        adjusted[members] = np.minimum(among_own / part, 1.0)
        bounds[members] = alpha * part / size
    return LevelDecision(adjusted <= alpha, adjusted, bounds)


def _holm(p_values: Floats) -> Floats:
    order = np.argsort(p_values, kind="stable")
    remaining = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * remaining), 1.0)
    return adjusted


PRESENT = 3.0  # a string this many standard errors above 0 in later groups counts as present
SYMMETRIC = 1e-3  # below this skewness the normal distribution is used


@dataclass(frozen=True)
class CountedStrings:
    """Shares of the strings, (M,) each."""

    shares: Floats
    null_errors: Floats  # Standard errors if no one has the string
    std_errors: Floats  # Standard errors at the string's estimated share
    skewness: Floats  # Of the estimate if no one has the string

    @property
    def p_values(self) -> Floats:
        """P(an estimate at least this high if no one has the string), allowing for skewness."""
        return upper_tail(self.shares / self.null_errors, self.skewness)


def count(
    groups: PrefixGroups,
    fresh: Sequence[GroupShares],
    strings: Sequence[CompletedString],
    noise: BitNoise,
    repetition: float,
) -> CountedStrings:
    """Estimate the share of each string from the groups after the last group that chose it.

    A group is fitted with the strings that it did not choose, and with chosen strings that later
    groups confirm. Without a heavy string, all prefixes in its buckets would be overestimated; with
    a wrong string that the group itself chose, they would be underestimated.

    Args:
        groups: The prefix groups of the metric.
        fresh: The bucket shares of all groups, in order; the last group is only for counting.
        strings: The result of the search.
        noise: The noise of one bit.
        repetition: The repetition rho of the reports.
    """
    size = len(strings)
    weights, sums, thirds, reports = (np.zeros(size) for _ in range(4))
    levels = np.array([string.level for string in strings])
    for number in reversed(range(len(fresh))):
        counted_here = levels < number
        if counted_here.any():
            present = counted_here | (sums > PRESENT * np.sqrt(weights))
            shift = groups.code_bits - fresh[number].num_bits
            prefixes = np.array([s.bits >> shift for s in compress(strings, present)], np.uint64)
            fit = fresh[number].fit(prefixes, noise, repetition)
            part = counted_here[present]
            precision = 1 / fit.null_errors[part] ** 2
            weights[counted_here] += precision
            sums[counted_here] += precision * fit.shares[part]
            thirds[counted_here] += fit.skewness * precision**1.5
            reports[counted_here] += fit.num_reports
    shares, null_errors = sums / weights, 1 / np.sqrt(weights)
    present = np.clip(shares, 0, 1)
    more = noise.q_star * (1 - noise.q_star) - noise.p_star * (1 - noise.p_star)
    variance = present * more / noise.gap**2 + present * (1 - present)
    variance = null_errors**2 + np.maximum(repetition * variance / reports, 0)
    return CountedStrings(shares, null_errors, np.sqrt(variance), thirds / weights**1.5)


def upper_tail(z: Floats, skewness: Floats) -> Floats:
    """Return P(Z >= z) of Pearson's type III distribution with mean 0, variance 1 and `skewness`.

    If the skewness is at most SYMMETRIC, the normal distribution is used."""
    normal = ndtr(-z)
    skewed = skewness > SYMMETRIC
    if not skewed.any():
        return np.asarray(normal)
    shape = 4 / np.where(skewed, skewness, 1) ** 2
    gamma = gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0))
    return np.asarray(np.where(skewed, gamma, normal))
