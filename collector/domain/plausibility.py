"""Bounds on the number of set bits in an honest report, against crude forgeries.

Given B, the k bits of a report are independent, P(S=1) = q_star where B is set and p_star
elsewhere, so its weight has mean s*q_star + (k-s)*p_star, where s bits of B are set. With m the
mean of a bit, the probability of a weight of w or more above the mean (or of w or fewer below it)
is at most exp(-k * D(w/k || m)), D the relative entropy of two coins (Hoeffding 1963, theorem 1;
it holds for coins that differ). Weights for which this is below TAIL are refused: an honest
report is refused with probability 2 * TAIL at most, whatever the parameters. For wide filters the
range is 6.4 standard deviations either way; where it covers every weight, nothing is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from rappor_core.params import RapporParams

TAIL = 1e-9


@dataclass(frozen=True, slots=True)
class WeightRange:
    """The numbers of set bits that an honest report may have, ends included.

    certain: any other is not merely improbable but impossible, and refused whatever is set.
    """

    lowest: int
    highest: int
    certain: bool = False


@lru_cache(maxsize=1024)  # a registry asks it of every version each time it is read
def weight_range(params: RapporParams) -> WeightRange:
    """The widest range over all numbers of bits that a value may set."""
    if params.scheme.symbols:  # one symbol of k is reported, always exactly one
        return WeightRange(1, 1, certain=True)
    fewest, most = params.scheme.set_bits(params)
    ranges = [_range(params, bits_set) for bits_set in {fewest, most}]
    lowest = max(0, min(low for low, _ in ranges))
    highest = min(params.num_bits, max(high for _, high in ranges))
    return WeightRange(lowest, highest)


def _range(params: RapporParams, bits_set: int) -> tuple[int, int]:
    """The least and the greatest weight of which Chernoff's bound leaves more than TAIL."""
    num_bits = params.num_bits
    mean = (bits_set * params.q_star + (num_bits - bits_set) * params.p_star) / num_bits
    middle = min(num_bits, max(0, round(mean * num_bits)))
    lowest, highest = middle, middle
    while lowest > 0 and not _is_rare(lowest - 1, num_bits, mean):
        lowest -= 1
    while highest < num_bits and not _is_rare(highest + 1, num_bits, mean):
        highest += 1
    return lowest, highest


def _is_rare(weight: int, num_bits: int, mean: float) -> bool:
    """Whether so few, or so many, bits have a probability below TAIL by the bound."""
    share = weight / num_bits
    divergence = _term(share, mean) + _term(1 - share, 1 - mean)
    return num_bits * divergence > -math.log(TAIL)


def _term(share: float, mean: float) -> float:
    """share * ln(share / mean), with its limits."""
    if share == 0:
        return 0.0
    return math.inf if mean <= 0 else share * math.log(share / mean)
