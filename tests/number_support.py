"""Populations of numbers: devices over many periods, and shares over their jitter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

import numpy as np

from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import aggregate_of_metric

START = date(2026, 1, 5)


def jittered_shares(metric: Metric, numbers: Floats) -> Floats:
    """P(at or above the cut) over devices' jitter, of a population given by many numbers. (K,)."""
    number = metric.details
    ends = np.array(number.edges)
    scaled, x = ends, np.clip(numbers, ends[0], ends[-1])
    if number.scale == "log":
        scaled, x = np.log(ends), np.log(x)
    shares = [
        float(np.clip((x - low) / (high - low), 0, 1).mean()) for low, high in pairwise(scaled)
    ]
    return np.array([*shares, float((numbers >= ends[-1]).mean())])


@dataclass
class Fleet:
    """Devices with cohorts and two permanent answers each, for many periods."""

    metric: Metric
    cohorts: Indices
    answers: Indices
    rng: np.random.Generator

    @classmethod
    def make(cls, metric: Metric, devices: int, rng: np.random.Generator) -> Fleet:
        """Draw cohorts and the permanent answer to either symbol; mode `memo`, edges."""
        kept = metric.params.mechanism.p1 / (1 << 16)
        cohorts = rng.integers(0, metric.params.num_cohorts, devices)
        truth = rng.random((devices, 2)) < kept
        answers = np.where(truth, [0, 1], [1, 0])
        return cls(metric, cohorts, answers, rng)

    def report(self, numbers: Floats, period: int, reporting: Flags | None = None) -> Aggregate:
        """The counts of one period. reporting: which devices report; None: all."""
        params, number = self.metric.params, self.metric.details
        asked = np.array(number.asked)
        above = (numbers >= asked[self.cohorts % number.stride(2)]).astype(int)
        result = self.answers[np.arange(len(numbers)), above]
        kept = self.rng.random(len(numbers)) < params.mechanism.p2 / (1 << 16)
        said = np.where(kept, result, 1 - result)
        cohorts = self.cohorts
        if reporting is not None:
            said, cohorts = said[reporting], cohorts[reporting]
        counts = np.zeros((params.num_cohorts, 2), dtype=int)
        np.add.at(counts, (cohorts, said), 1)
        day = START + timedelta(days=period)
        return aggregate_of_metric(self.metric, counts.sum(axis=1), counts, day, day)
