"""Linked reports: of each device the noisy bits of two metrics, with one shared cohort."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from decoder.errors import DecodeError
from decoder.model.noise import BitNoise
from decoder.typing import Floats, Indices

UNLISTED = "(not listed)"
Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Side:
    """One of the two metrics of a joint table.

    name: of the metric.  values: those listed, (M,).  designs: chance that each sets each bit in
    each cohort, (m, k, M): 0 or 1, and the mean of a random string for `UNLISTED`.
    """

    name: str
    values: tuple[str, ...]
    designs: Floats
    noise: BitNoise

    @property
    def ones(self) -> float:
        """Noise variance v1 of a debiased bit that is set."""
        return self.noise.q_star * (1 - self.noise.q_star) / self.noise.gap**2

    @property
    def zeros(self) -> float:
        """Noise variance v0 of a debiased bit that is clear."""
        return self.noise.p_star * (1 - self.noise.p_star) / self.noise.gap**2

    def lasting(self, bit: int) -> float:
        """The part of `ones` or `zeros` that all reports of a device share."""
        return self.noise.between(bit) / self.noise.gap**2

    def bit_noise(self, *, fresh: bool) -> tuple[float, float]:
        """Noise variance of an unbiased bit that is set, and of one that is not.

        fresh: or the covariance of two reports of one device, which share no fresh noise.
        """
        return (self.ones, self.zeros) if fresh else (self.lasting(1), self.lasting(0))

    def with_unlisted(self, mean: float) -> Side:
        """The side with one more value for all unlisted ones, each of whose bits is set with
        chance `mean`."""
        other = np.full((*self.designs.shape[:2], 1), mean)
        designs = np.concatenate([self.designs, other], axis=2)
        return replace(self, values=(*self.values, UNLISTED), designs=designs)

    def extended(self, cohort: int) -> Floats:
        """The design of a cohort below a row of ones, (k + 1, M)."""
        design = self.designs[cohort]
        return np.vstack([np.ones((1, design.shape[1])), design])

    def debiasing(self) -> Floats:
        """The linear map from (1, report bits) to (1, unbiased bits), (k + 1, k + 1)."""
        bits, gap = self.designs.shape[1], self.noise.gap
        matrix = np.diag(np.append(1.0, np.full(bits, 1 / gap)))
        matrix[1:, 0] = -self.noise.p_star / gap
        return matrix

    def spread(self, bits: Floats, *, fresh: bool) -> Floats:
        """Variance of (1, unbiased bits) of a report, by value, (k + 1, M).

        bits: as `extended` gives them.  fresh: or the covariance of two reports of one device,
        which share no fresh noise.
        """
        ones, zeros = self.bit_noise(fresh=fresh)
        found = bits * ones + (1 - bits) * zeros + bits * (1 - bits)
        found[0] = 0.0
        return np.asarray(found)

    def weighted(self, cohort: int) -> Floats:
        """The weighted design matrix W X of a cohort, (k + 1, M)."""
        return np.asarray(self.weights()[:, None] * self.extended(cohort))

    def weights(self) -> Floats:
        """Inverse variance of (1, unbiased bits) at the mean share of bits, (k + 1,)."""
        share = float(self.designs.mean())
        spread = self.zeros + share * (1 - share) + share * (self.ones - self.zeros)
        return np.append(1.0, np.full(self.designs.shape[1], 1 / spread))


@dataclass(frozen=True)
class LinkedReports:
    """Linked reports, one row a device. cohorts: (N,). first, second: report bits, (N, k1) and
    (N, k2).

    Raises DecodeError for arrays that do not fit together.
    """

    cohorts: Indices
    first: Bits
    second: Bits

    def __post_init__(self) -> None:
        """Check the shapes."""
        rows = {len(self.cohorts), len(self.first), len(self.second)}
        if rows == {0}:
            raise DecodeError("there are no linked reports: give a longer window")
        if len(rows) != 1:
            raise DecodeError(f"linked reports of {sorted(rows)} rows; give one row a device")

    def __len__(self) -> int:
        """N, the number of reports."""
        return len(self.cohorts)


def co_occurrences(reports: LinkedReports, num_cohorts: int) -> Floats:
    """Count in each cohort how many reports have bit a of one and bit b of the other metric.

    Returns (m, k1 + 1, k2 + 1); index 0 is the constant 1, so that the first row and column hold
    the counts of single bits, and [0, 0] the number of reports.
    """
    sizes = reports.first.shape[1] + 1, reports.second.shape[1] + 1
    found = np.zeros((num_cohorts, *sizes))
    for cohort in range(num_cohorts):
        mine = reports.cohorts == cohort
        ones = np.ones((int(mine.sum()), 1))
        first = np.hstack([ones, reports.first[mine]])
        second = np.hstack([ones, reports.second[mine]])
        found[cohort] = first.T @ second
    return found
