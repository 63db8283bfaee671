"""Draw what groups of devices report to the rival search methods, and test which strings a group
holds.

Each device is in one group and reports one value with the whole epsilon, hashed into k buckets with
its cohort's hash, as in ours (OUE): every method has the same epsilon and the same reports.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from decoder.discovery.bucket_shares import GroupShares
from decoder.discovery.prefix_hash import Prefixes, prefix_positions
from decoder.discovery.search import BEAM, FITTED
from decoder.model.counts import debias
from decoder.model.noise import BitNoise
from decoder.typing import Flags, Floats

SEEDS, BUCKETS = 32, 1_024
KEY_BITS = 64
ALPHA = 0.05
AT_ONCE = 2_000  # strings of one pursuit
Draw = Callable[[Prefixes], GroupShares]


def drawer(
    shares: Floats, num_reports: int, num_groups: int, noise: BitNoise, rng: np.random.Generator
) -> Draw:
    """Make the function that draws a group's counts, given the key of each string; exact
    binomial counts."""
    cohorts = np.arange(SEEDS)

    def draw(keys: Prefixes) -> GroupShares:
        size = num_groups * SEEDS
        reports = rng.multinomial(num_reports, np.full(size, 1 / size))[:SEEDS]
        positions = prefix_positions(keys, KEY_BITS, cohorts, BUCKETS)
        holders = rng.multinomial(reports, shares)
        truth = np.array(
            [np.bincount(positions[:, c], holders[c], BUCKETS) for c in cohorts]
        ).astype(np.int64)
        counts = rng.binomial(truth, noise.q_star)
        counts += rng.binomial(reports[:, None] - truth, noise.p_star)
        totals = reports.astype(np.float64)
        return GroupShares(cohorts, totals, debias(counts.astype(float), totals, noise), KEY_BITS)

    return draw


def significant(group: GroupShares, keys: Prefixes) -> Flags:
    """Which of some keys differ significantly from zero (Bonferroni) in a group that had no part
    in choosing them, (P,)."""
    if not len(keys):
        return np.zeros(0, dtype=bool)
    if len(keys) > FITTED:
        parts = [group.pursue(keys[i : i + AT_ONCE], BEAM) for i in range(0, len(keys), AT_ONCE)]
        z = np.concatenate(parts)
    else:
        z = group.fit(keys).z
    return np.asarray(z > -ndtri(ALPHA / len(keys)))
