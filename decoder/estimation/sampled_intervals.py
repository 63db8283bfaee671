"""Intervals from posterior samples of all shares, where candidates outnumber the rows of the
data.

Several lists of shares then explain the data about equally well, and one fit is one of them.
Derivation: docs/method.md, "Crowded lists and maps".
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from decoder.estimation.gibbs import Samples, sample
from decoder.estimation.least_squares import centred_columns
from decoder.model.counts import Observed
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate

MOST_SHARES = 1_100  # up to which samples take two seconds
LEAST = 1e-9  # where an interval of a detected share begins that reaches down to it
_APART = 0.5  # posterior deviations between two halves of the samples, above which it is said


def seed_of(aggregate: Aggregate) -> int:
    """A number that the counts determine: the same counts give the same samples."""
    counts = repr((aggregate.reports_per_cohort, aggregate.bit_counts)).encode()
    return int.from_bytes(sha256(counts).digest()[:8], "little")


def sample_shares(observed: Observed, noise: Floats, seed: int) -> Samples:
    """Sample the shares of all candidates given all counts.

    noise: covariance of what the candidates do not explain, (m, k, k).
    """
    cohorts, bits = observed.centred.shape
    columns = centred_columns(observed.positions, observed.noise.random)
    inverse = np.linalg.inv(noise)
    weighed = (inverse @ columns.reshape(cohorts, bits, -1)).reshape(columns.shape)
    gram = columns.T @ weighed
    score = weighed.T @ observed.centred.ravel()
    return sample((gram + gram.T) / 2, score, np.random.default_rng(seed))


def sampled_intervals(
    samples: Samples, estimate: Floats, detected: Flags, level: float
) -> tuple[Floats, Floats]:
    """Intervals of all shares under a flat prior; for detected ones joined with those under the
    learnt prior, (M,).

    The first cover a share whatever it is, the second one that was picked for its high score.
    Those of the detected also hold the estimate, as `selected_intervals` do.
    """
    low, high = samples.flat_interval(level)
    chosen_low, chosen_high = samples.posterior_interval(level)
    low = np.where(detected, np.minimum(np.minimum(low, chosen_low), estimate), low)
    high = np.where(detected, np.maximum(np.maximum(high, chosen_high), estimate), high)
    return low, high


def unconverged(samples: Samples, detected: Flags) -> int:
    """Number of detected candidates for which the two halves of the samples disagree."""
    return int((samples.disagreement[detected] > _APART).sum())
