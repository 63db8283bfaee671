"""Aggregates of coded prefixes, drawn exactly from their distribution, without a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder.discovery.discovery import declared_groups
from decoder.discovery.prefix_hash import prefix_positions
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import normalise
from rappor_core.metrics.metric import Metric


@dataclass(frozen=True)
class StringPopulation:
    """Strings that devices hold, and the bucket of each in each cohort, (N, m)."""

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
            prefixes = [groups.prefix(normalise(string), group) for string in strings]
            bits, own = groups.prefix_bits(group), cohorts[numbers == group]
            codes = np.array(prefixes, dtype=np.uint64)
            parts.append(prefix_positions(codes, bits, own, params.num_bits))
        return cls(metric, tuple(strings), np.concatenate(parts, axis=1))

    def draw(
        self, shares: Floats, num_reports: int, rng: np.random.Generator
    ) -> tuple[Aggregate, Indices]:
        """One report of each device: who is in which cohort, who holds what, the noise.

        Returns the aggregate and the true number of holders of each string, (N,).
        """
        params = self.metric.params
        size = params.num_cohorts
        cohorts = rng.multinomial(num_reports, np.full(size, 1 / size))
        holders = rng.multinomial(cohorts, shares)
        truth = np.array(
            [
                np.bincount(self.positions[:, cohort], holders[cohort], params.num_bits)
                for cohort in range(size)
            ]
        ).astype(np.int64)
        others = cohorts[:, None] - truth
        counts = rng.binomial(truth, params.q_star) + rng.binomial(others, params.p_star)
        aggregate = Aggregate(
            metric=self.metric.name,
            params=params,
            reports_per_cohort=tuple(cohorts.tolist()),
            bit_counts=tuple(map(tuple, counts.tolist())),
            params_id=self.metric.params_id,
            definition=self.metric.to_dict(),
        )
        return aggregate, holders.sum(axis=0)
