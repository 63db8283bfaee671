"""Unbiased bucket shares of one group of cohorts, and the joint least squares fit of prefixes to
them.

A bucket of a cohort holds the shares of all strings whose prefix falls on it. The model of the fit:
the prefixes that are named, and all others together, which fall on every bucket alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from decoder.discovery.prefix_hash import Prefixes, prefix_positions
from decoder.model.noise import BitNoise
from decoder.typing import Floats, Indices

CLIP = 2.5  # standard deviations of one bucket
STRONG = 6.0  # standard errors of a prefix whose buckets vary more than others by its reports
ENTERS = 3.5  # the least score of a prefix that enters the fit of a pursuit
MEDIAN_SQUARE = 0.4549364  # of the square of a standard normal variable
_RIDGE = 1e-9  # of the diagonal: prefixes that share every bucket are told apart by no data


@dataclass(frozen=True)
class GroupShares:
    """The data of one group: its cohorts with reports (m,), their numbers of reports, bucket
    shares (m, k).

    num_bits: of the prefixes that the group hashes.
    """

    cohorts: Indices
    reports: Floats
    shares: Floats
    num_bits: int

    @property
    def num_reports(self) -> float:
        """Number of reports of the group."""
        return float(self.reports.sum())

    def scores(self) -> Floats:
        """The contribution of each bucket to the score of a prefix: clipped, centerd, with unit
        variance in sum.

        Clipping keeps a heavy string from lifting whatever falls on the same bucket, (m, k).
        """
        scaled = (self.shares - self._mean) * np.sqrt(self.reports)[:, None] / self._spread
        clipped = np.clip(scaled, -CLIP, CLIP)
        clipped = (clipped - clipped.mean()) / clipped.std()
        return np.asarray(clipped * np.sqrt(self.reports / self.num_reports)[:, None])

    @property
    def _mean(self) -> float:
        return float(1 / self.shares.shape[1])

    @cached_property
    def _spread(self) -> float:
        """Standard deviation of a bucket share of one report, by the median: few are full."""
        squares = (self.shares - self._mean) ** 2 * self.reports[:, None]
        return float(np.sqrt(np.median(squares) / MEDIAN_SQUARE))

    def fit(
        self, prefixes: Prefixes, noise: BitNoise | None = None, repetition: float = 1.0
    ) -> Fit:
        """Fit the shares of distinct prefixes, and of all other strings together, by least
        squares weighted by reports.

        Returns estimates with the variance that the residuals show. A bucket of a strong prefix
        varies more than others, and so do prefixes that share it: a second fit allows for that.
        noise: of one bit; None: all are taken to vary alike.
        repetition: reports of a device, sum r^2 / sum r.
        """
        design, normal, right = self._equations(prefixes, self._weights)
        inverse, solved = _solved(normal, right)
        variance, third = self._residual(design, solved, self._weights)
        errors = np.sqrt(variance * np.diag(inverse)[:-1])
        strong = solved[:-1] > STRONG * errors
        if noise is not None and strong.any():
            held = np.clip(solved[:-1] * strong, 0, 1) @ design
            weights = self._weights / _relative(np.minimum(held, 1.0), noise, repetition)
            _, normal, right = self._equations(prefixes, weights)
            others, solved = _solved(normal, right)
            variance, third = self._residual(design, solved, weights)
            # if nobody held a strong prefix, its own buckets would vary as others do
            chosen = np.where(strong, np.diag(inverse)[:-1], np.diag(others)[:-1])
            errors = np.sqrt(variance * chosen)
        skewness = third * float((self.reports**1.5).sum()) / self.num_reports**1.5
        return Fit(solved[:-1], errors, skewness, self.num_reports)

    def pursue(self, prefixes: Prefixes, most: int) -> Floats:
        """Score distinct prefixes, most of which are wrong, by orthogonal matching pursuit,
        (P,).

        The best prefix enters the fit, and its part is taken from all others, up to `most` times.
        (A joint fit of all would share the part of a true one among the wrong ones that were
        chosen because they share its buckets. Pati, Rezaiifar, Krishnaprasad 1993.)
        """
        _, normal, right = self._equations(prefixes, self._weights)
        unit = self._spread * np.sqrt(np.diag(normal)[:-1])
        fitted, scores = [len(prefixes)], np.zeros(len(prefixes))
        while True:
            chosen = np.ix_(fitted, fitted)
            solved = np.linalg.solve(normal[chosen], right[fitted])
            z = (right - normal[:, fitted] @ solved)[:-1] / unit
            z[fitted[1:]] = -np.inf
            best = int(np.argmax(z))
            if z[best] < ENTERS or len(fitted) > most:
                break
            fitted.append(best)
        inverse = np.linalg.inv(normal[chosen])
        errors = self._spread * np.sqrt(np.diag(inverse))
        scores[:] = z
        scores[fitted[1:]] = (solved / errors)[1:]
        return scores

    @property
    def _weights(self) -> Floats:
        """Of each bucket: the reports of its cohort, (m*k,)."""
        return np.repeat(self.reports, self.shares.shape[1])

    def _residual(
        self, design: sparse.csr_array, solved: Floats, weights: Floats
    ) -> tuple[float, float]:
        """Variance and skewness of what a fit leaves, of one report on an ordinary bucket."""
        left = self.shares.ravel() - design.T @ solved[:-1] - solved[-1] * self._mean
        left *= np.sqrt(weights)
        variance = float((left**2).sum()) / max(1, len(left) - len(solved))
        return variance, float((left**3).mean()) / variance**1.5

    def _equations(
        self, prefixes: Prefixes, weights: Floats
    ) -> tuple[sparse.csr_array, Floats, Floats]:
        """Buckets of each prefix (P, m*k); normal matrix and right side, all others last."""
        size = self.shares.shape[1]
        positions = prefix_positions(prefixes, self.num_bits, self.cohorts, size)
        columns = (positions + np.arange(len(self.cohorts)) * size).ravel()
        starts = np.arange(0, len(columns) + 1, len(self.cohorts))
        shape = (len(prefixes), self.shares.size)
        design = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        weighted = sparse.csr_array((weights[columns], columns, starts), shape=shape)
        normal = np.empty((len(prefixes) + 1,) * 2)
        normal[:-1, :-1] = (weighted @ design.T).toarray()
        normal[-1, :-1] = normal[:-1, -1] = weighted.sum(axis=1) / size
        normal[-1, -1] = weights.sum() / size**2
        values = self.shares.ravel()
        return design, normal, np.append(weighted @ values, weights @ values / size)


def _relative(held: Floats, noise: BitNoise, repetition: float) -> Floats:
    """Variance of buckets on which a share of all reports falls, over that of an empty one."""
    sampled = repetition * held * (1 - held)
    empty = noise.mechanism_variance(np.zeros(1), repetition)
    return np.asarray((noise.mechanism_variance(held, repetition) + sampled) / empty)


def _solved(normal: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Inverse of a normal matrix, and what solves the equations."""
    normal[np.diag_indices(len(normal))] *= 1 + _RIDGE
    inverse = np.asarray(np.linalg.inv(normal), dtype=np.float64)
    return inverse, np.asarray(inverse @ right)


@dataclass(frozen=True)
class Fit:
    """Fitted shares of the prefixes, and standard errors under the hypothesis that nobody holds
    them, (P,) each.

    skewness: of such an estimate.  num_reports: of the group.
    """

    shares: Floats
    null_errors: Floats
    skewness: float
    num_reports: float

    @property
    def z(self) -> Floats:
        """The shares divided by their standard errors."""
        return np.asarray(self.shares / self.null_errors)
