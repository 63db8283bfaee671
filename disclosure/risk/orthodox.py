"""The usual count of a key: a missing value agrees with everything, on both sides.

Equation (3) of the OPTA/PESA text, as printed, lets a missing value equal only a missing value; its
first table needs the rule of its prose, which is this one (and sdcMicro's default).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from disclosure.risk.patterns import Patterns, sum_matching
from disclosure.typing import Integers


def orthodox_frequencies(patterns: Patterns) -> Integers:
    """For each pattern, the number of rows that agree with it wherever both are determined,
    (P,)."""
    frequencies = np.zeros(len(patterns.counts), dtype=np.int64)
    masks = list(patterns.by_mask())
    for columns, targets in masks:
        shared = defaultdict(list)
        for others, sources in masks:
            shared[tuple(p for p in others if p in columns)].append(sources)
        for common, groups in shared.items():
            sources, on = np.concatenate(groups), list(common)
            frequencies[targets] += sum_matching(
                patterns.codes[sources][:, on],
                patterns.counts[sources],
                patterns.codes[targets][:, on],
                [patterns.sizes[p] for p in common],
            )
    return frequencies
