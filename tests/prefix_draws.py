"""Draw aggregates of coded prefixes exactly from their distribution, without simulating devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder.discovery.bucket_shares import prefix_positions
from decoder.discovery.discovery import declared_groups
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import normalize
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import aggregate_of_metric, draw_cohorts, noisy_counts


@dataclass(frozen=True)
class StringPopulation:
    """The strings that devices hold, and the bucket of each in each cohort, (N, m)."""

    metric: Metric
    strings: tuple[str, ...]
    positions: Indices

    @classmethod
    def of(cls, metric: Metric, strings: Sequence[str]) -> StringPopulation:
        """Hash the strings once, for any number of draws. Raises DecodeError of another kind."""
        groups, params = declared_groups(metric), metric.params
        cohorts = np.arange(params.num_cohorts)
        numbers = cohorts * groups.num_groups // params.num_cohorts
        parts = []
        for group in range(groups.num_groups):
            prefixes = [groups.prefix(normalize(string), group) for string in strings]
            bits, own = groups.prefix_bits(group), cohorts[numbers == group]
            codes = np.array(prefixes, dtype=np.uint64)
            parts.append(prefix_positions(codes, bits, own, params.num_bits))
        return cls(metric, tuple(strings), np.concatenate(parts, axis=1))

    def draw(
        self, shares: Floats, num_reports: int, rng: np.random.Generator
    ) -> tuple[Aggregate, Indices]:
        """Draw one report of each device: its cohort, its string, the noise.

        Returns the aggregate and the true number of holders of each string, (N,).
        """
        params = self.metric.params
        cohorts = draw_cohorts(num_reports, params.num_cohorts, rng)
        holders = rng.multinomial(cohorts, shares)
        truth = np.array(
            [
                np.bincount(self.positions[:, cohort], holders[cohort], params.num_bits)
                for cohort in range(params.num_cohorts)
            ]
        ).astype(np.int64)
        return _noisy(self.metric, cohorts, truth, rng), holders.sum(axis=0)

    def bucket_shares(self, shares: Floats) -> Floats:
        """The share of all strings that fall on each bucket of each cohort, (m, k)."""
        params = self.metric.params
        found = np.array(
            [
                np.bincount(self.positions[:, cohort], shares, params.num_bits)
                for cohort in range(params.num_cohorts)
            ]
        )
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def _noisy(metric: Metric, cohorts: Indices, truth: Indices, rng: np.random.Generator) -> Aggregate:
    """Randomize each report's bits; truth: how many of a cohort hold something of a bucket."""
    counts = noisy_counts(truth, cohorts, metric.params, rng)
    return aggregate_of_metric(metric, cohorts, counts, None, None)
