"""Unbiased bucket shares of one group of cohorts, and the joint fit of some prefixes to them.

A bucket of a cohort holds the shares of all strings whose prefix falls on it. The model of the fit:
the prefixes that are named, and all others together, which fall on every bucket alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from decoder.discovery.prefix_hash import Prefixes, prefix_positions
from decoder.typing import Floats, Indices

CLIP = 2.5  # standard deviations of one bucket
ENTERS = 3.5  # the least score of a prefix that enters the fit of a pursuit
MEDIAN_SQUARE = 0.4549364  # of the square of a standard normal variable
_RIDGE = 1e-9  # of the diagonal: prefixes that share every bucket are told apart by no data


@dataclass(frozen=True)
class GroupShares:
    """One group: numbers of its cohorts with reports (m,), their reports, bucket shares (m, k).

    num_bits: of the prefixes that the group hashes.
    """

    cohorts: Indices
    reports: Floats
    shares: Floats
    num_bits: int

    @property
    def num_reports(self) -> float:
        """Of the whole group."""
        return float(self.reports.sum())

    def scores(self) -> Floats:
        """What a bucket adds to a prefix's score: clipped, centred, with unit variance in sum.

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

    def fit(self, prefixes: Prefixes) -> Fit:
        """Least squares of the shares of distinct prefixes and of all others, weighted by reports.

        Returns estimates with the variance that the residuals show.
        """
        size, total = self.shares.shape[1], self.num_reports
        design, normal, right = self._equations(prefixes)
        weights, values = np.repeat(self.reports, size), self.shares.ravel()
        normal[np.diag_indices(len(normal))] *= 1 + _RIDGE
        inverse = np.linalg.inv(normal)
        solved = inverse @ right
        residual = values - design.T @ solved[:-1] - solved[-1] / size
        freedom = max(1, len(values) - len(solved))
        variance = float((weights * residual**2).sum() / freedom)
        third = float(((np.sqrt(weights) * residual) ** 3).mean()) / variance**1.5
        errors = np.sqrt(variance * np.diag(inverse)[:-1])
        skewness = third * float((self.reports**1.5).sum()) / total**1.5
        return Fit(solved[:-1], errors, skewness, total)

    def pursue(self, prefixes: Prefixes, most: int) -> Floats:
        """Scores of distinct prefixes of which most are wrong, (P,): orthogonal matching pursuit.

        The best prefix enters the fit, and its part is taken from all others, up to `most` times.
        (A joint fit of all would share the part of a true one among the wrong ones that were
        chosen because they share its buckets. Pati, Rezaiifar, Krishnaprasad 1993.)
        """
        _, normal, right = self._equations(prefixes)
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

    def _equations(self, prefixes: Prefixes) -> tuple[sparse.csr_array, Floats, Floats]:
        """Buckets of each prefix (P, m*k); normal matrix and right side, all others last."""
        size, total = self.shares.shape[1], self.num_reports
        positions = prefix_positions(prefixes, self.num_bits, self.cohorts, size)
        columns = (positions + np.arange(len(self.cohorts)) * size).ravel()
        starts = np.arange(0, len(columns) + 1, len(self.cohorts))
        ones = np.ones(len(columns))
        design = sparse.csr_array((ones, columns, starts), shape=(len(prefixes), self.shares.size))
        weighted = design.copy()
        weighted.data = np.tile(self.reports, len(prefixes))
        normal = np.full((len(prefixes) + 1,) * 2, total / size)
        normal[:-1, :-1] = (weighted @ design.T).toarray()
        values = self.shares.ravel()
        others = float(self.reports @ self.shares.sum(axis=1)) / size
        return design, normal, np.append(weighted @ values, others)


@dataclass(frozen=True)
class Fit:
    """Shares of the prefixes and their standard errors if nobody holds them, (P,) each.

    skewness: of such an estimate.  num_reports: of the group.
    """

    shares: Floats
    null_errors: Floats
    skewness: float
    num_reports: float

    @property
    def z(self) -> Floats:
        """Shares in standard errors."""
        return np.asarray(self.shares / self.null_errors)
