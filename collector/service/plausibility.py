"""How many bits of an honest report can be set: a bound against crude forgeries.

Given B, the k bits of a report are independent, P(S=1) = q_star where B is set and p_star
elsewhere, so its weight has mean s*q_star + (k-s)*p_star and the variance of k such coins, where
s bits of B are set. Six standard deviations either way cost an honest report one in 10**8 or less
where the weight is near normal; where the range covers every weight, nothing is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rappor_core.params import RapporParams

SIGMAS = 6.0


@dataclass(frozen=True, slots=True)
class WeightRange:
    """Weights that an honest report may have, inclusive.

    certain: any other is not merely improbable but impossible, and refused whatever is set.
    """

    lowest: int
    highest: int
    certain: bool = False


def weight_range(params: RapporParams) -> WeightRange:
    """The widest range over all numbers of bits that a value may set."""
    if params.encoding == "symbol":  # one symbol of k is reported, always exactly one
        return WeightRange(1, 1, certain=True)
    fewest = 0 if params.encoding == "boolean" else 1
    most = min(params.num_hashes, params.num_bits)
    ranges = [_range(params, bits_set) for bits_set in {fewest, most}]
    lowest = max(0, min(low for low, _ in ranges))
    highest = min(params.num_bits, max(high for _, high in ranges))
    return WeightRange(lowest, highest)


def _range(params: RapporParams, bits_set: int) -> tuple[int, int]:
    clear = params.num_bits - bits_set
    mean = bits_set * params.q_star + clear * params.p_star
    variance = bits_set * params.q_star * (1 - params.q_star) + clear * params.p_star * (
        1 - params.p_star
    )
    spread = SIGMAS * math.sqrt(variance)
    return math.floor(mean - spread), math.ceil(mean + spread)
