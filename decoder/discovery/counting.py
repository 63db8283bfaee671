"""Estimate the shares of found strings from groups of cohorts that had no part in finding them.

A string that ended at level l was chosen by the groups up to l; each later group, and the one that
only counts, is new data about it. So no estimate carries the search's choice, and a p-value is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from scipy.special import gammaincc, ndtr

from decoder.discovery.bucket_shares import GroupShares
from decoder.discovery.prefix_hash import Prefixes
from decoder.discovery.search import CompletedString
from decoder.model.noise import BitNoise
from decoder.typing import Floats
from rappor_core.codes.prefix_groups import PrefixGroups

PRESENT = 3.0  # standard errors above 0, by later groups
SYMMETRIC = 1e-3  # skewness below which the normal law serves


@dataclass(frozen=True)
class CountedStrings:
    """Shares of the strings, (M,) each.

    null_errors: standard errors if nobody holds the string.  std_errors: given its share.
    skewness: of the estimate if nobody holds it.  reports: that the estimate rests on.
    """

    shares: Floats
    null_errors: Floats
    std_errors: Floats
    skewness: Floats
    reports: Floats

    @property
    def p_values(self) -> Floats:
        """P(an estimate so high if nobody holds the string).

        The law of a sum of many rare bits is skewed; Pearson's type III has its three moments.
        """
        return upper_tail(self.shares / self.null_errors, self.skewness)


def count(
    groups: PrefixGroups,
    fresh: Sequence[GroupShares],
    found: Sequence[CompletedString],
    noise: BitNoise,
    repetition: float,
) -> CountedStrings:
    """Estimate the share of each string from the groups after the one that chose it last.

    A group is fitted with the strings that it did not choose, and with those of the others that
    later groups show to be there: a heavy string left out would lift what shares its buckets, and
    a wrong one that the group itself chose would take from what shares its own.

    Args:
        groups: of the metric.
        fresh: bucket shares of all groups, in order; the last one only counts.
        found: what the search came to.
        noise: of one bit.
        repetition: reports of a device, sum r^2 / sum r.
    """
    size = len(found)
    weights, sums, thirds, reports = (np.zeros(size) for _ in range(4))
    levels = np.array([string.level for string in found])
    for number in reversed(range(len(fresh))):
        own = levels < number
        if own.any():
            held = own | (sums > PRESENT * np.sqrt(weights))
            prefixes = _prefixes(groups, fresh[number], list(compress(found, held)))
            fit = fresh[number].fit(prefixes, noise, repetition)
            part = own[held]
            precision = 1 / fit.null_errors[part] ** 2
            weights[own] += precision
            sums[own] += precision * fit.shares[part]
            thirds[own] += fit.skewness * precision**1.5
            reports[own] += fit.num_reports
    shares, null_errors = sums / weights, 1 / np.sqrt(weights)
    held = np.clip(shares, 0, 1)
    more = noise.q_star * (1 - noise.q_star) - noise.p_star * (1 - noise.p_star)
    variance = held * more / noise.gap**2 + held * (1 - held)
    variance = null_errors**2 + np.maximum(repetition * variance / reports, 0)
    return CountedStrings(shares, null_errors, np.sqrt(variance), thirds / weights**1.5, reports)


def _prefixes(
    groups: PrefixGroups, group: GroupShares, found: Sequence[CompletedString]
) -> Prefixes:
    shift = groups.code_bits - group.num_bits
    return np.array([string.bits >> shift for string in found], dtype=np.uint64)


def upper_tail(z: Floats, skewness: Floats) -> Floats:
    """P(Z >= z) of Pearson's type III law with mean 0, variance 1 and a skewness; normal where
    the skewness is 0 or below."""
    normal = ndtr(-z)
    skewed = skewness > SYMMETRIC
    if not skewed.any():
        return np.asarray(normal)
    shape = 4 / np.where(skewed, skewness, 1) ** 2
    gamma = gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0))
    return np.asarray(np.where(skewed, gamma, normal))
