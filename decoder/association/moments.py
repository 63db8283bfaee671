"""Joint table of two metrics from co-occurrence counts: unbiased, with its exact covariance.

The noise of the two metrics is independent given the values, so the debiased products of bits have
the products of the true bits as their mean (docs/method.md, "Two linked metrics").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from decoder.association.heavy_unlisted import heavy_unlisted, swapped
from decoder.association.linked import Side
from decoder.association.pair_model import RANK, SUM_WEIGHT, chi_squared
from decoder.association.table import Independence, margins
from decoder.errors import DecodeError, ImproperError
from decoder.numerics.simplex import contrasts, project_simplex
from decoder.typing import Floats

TOLD = 1e-12  # of the weight of the sum: below, rounding is a part of what pairs of bits tell


@dataclass(frozen=True)
class Moments:
    """Debiased co-occurrences of the cohorts that have reports.

    cohorts: their numbers.  reports: n_c, (m,).  sums: S_c, (m, k1 + 1, k2 + 1).
    repetition: rho = sum r^2 / sum r over devices, of which device i sent r_i of the reports.
    """

    first: Side
    second: Side
    cohorts: tuple[int, ...]
    reports: Floats
    sums: Floats
    repetition: float = 1.0

    @classmethod
    def of(cls, counts: Floats, first: Side, second: Side, repetition: float = 1.0) -> Moments:
        """Debias `co_occurrences`. Raises DecodeError where there are no reports."""
        present = np.flatnonzero(counts[:, 0, 0] > 0)
        if not len(present):
            raise DecodeError("there are no linked reports: give a longer window")
        sums = first.debiasing() @ counts[present] @ second.debiasing().T
        cohorts = tuple(map(int, present))
        number = counts[present, 0, 0]
        return cls(first, second, cohorts, number, np.asarray(sums), repetition)

    @property
    def noise(self) -> tuple[tuple[float, bool], ...]:
        """The parts of a report's covariance: the weight of each, and whether fresh noise is in
        it."""
        return (1.0, True), (self.repetition - 1, False)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of values of each side."""
        return len(self.first.values), len(self.second.values)


@dataclass(frozen=True)
class MomentFit:
    """The fit of a joint table by moments: unbiased shares (M1, M2) and the information H, (M1
    M2, M1 M2)."""

    estimate: Floats
    information: Floats
    moments: Moments

    @property
    def curvature(self) -> Floats:
        """The information H without the equation that the shares sum to 1."""
        return self.information - SUM_WEIGHT * float(self.moments.reports.sum())

    def covariance(self) -> Floats:
        """Covariance of the estimate, at its projection on the simplex, (M1 M2, M1 M2).

        Two reports of one device share the permanent bits of both metrics: they add as much of
        the covariance as reports without fresh noise would, rho - 1 times.
        """
        held = project_simplex(self.estimate.ravel()).reshape(self.estimate.shape)
        moments = self.moments
        inner = self._heavy(held)
        for cohort, number in zip(moments.cohorts, moments.reports, strict=True):
            mean = (_gram(moments.first, cohort) @ held @ _gram(moments.second, cohort)).ravel()
            sides = moments.first, moments.second
            for times, fresh in moments.noise:
                if times:
                    rows, columns = (_squares(side, cohort, fresh=fresh) for side in sides)
                    squares = _products(rows, held, columns) - np.outer(mean, mean)
                    inner += number * times * squares
        factor = _factor(self.information)
        half = cho_solve(factor, inner)
        return np.asarray(cho_solve(factor, half.T))

    def _heavy(self, held: Floats) -> Floats:
        """What heavy values that are not listed add to the covariance of g."""
        found, moments = np.zeros_like(self.information), self.moments
        for turned in (False, True):
            sides, sums, shares = (moments.first, moments.second), moments.sums, held
            if turned:
                sides, sums, shares = sides[::-1], sums.transpose(0, 2, 1), held.T
            added = heavy_unlisted(
                sides, moments.cohorts, moments.reports, sums, shares, moments.noise
            )
            if added is not None:
                found += swapped(added, shares.shape) if turned else added
        return found


def fit_moments(moments: Moments) -> MomentFit:
    """Fit the joint table to the co-occurrences by weighted least squares; the shares add up to
    1.

    Raises ImproperError where two values of a side have the same bits in every cohort.
    """
    cells = moments.shape[0] * moments.shape[1]
    weight = SUM_WEIGHT * float(moments.reports.sum())
    information, target = np.full((cells, cells), weight), np.full(moments.shape, weight)
    for place, cohort in enumerate(moments.cohorts):
        grams = (_gram(side, cohort) for side in (moments.first, moments.second))
        information += moments.reports[place] * np.kron(*grams)
        rows, columns = (side.weighted(cohort) for side in (moments.first, moments.second))
        target += rows.T @ moments.sums[place] @ columns
    _check_noise(moments)
    estimate = cho_solve(_factor(information), target.ravel())
    return MomentFit(estimate.reshape(moments.shape), information, moments)


def _check_noise(moments: Moments) -> None:
    """Refuse noise of which the rounding of the sums is as large as what a pair of bits tells."""
    told = float(np.prod([side.weights()[1:].max() for side in (moments.first, moments.second)]))
    if told < TOLD * SUM_WEIGHT * moments.first.designs.shape[2] * moments.second.designs.shape[2]:
        gaps = " and ".join(f"{side.noise.gap:.3g}" for side in (moments.first, moments.second))
        raise ImproperError(
            f"the chance that a bit is reported differs by {gaps} between 1 and 0: with so much "
            "noise no number of reports gives a table; give the metrics a larger epsilon"
        )


def moments_independence(moments: Moments, estimate: Floats, level: float) -> Independence:
    """Score test of independence on the centred co-occurrences, at `level`.

    estimate: the table, (M1, M2), whose margins count.

    Under independence the covariance of the centred products of a cohort is the product of the
    covariances of the two metrics' bits, which follow from the margins; between two reports of one
    device, that of the bits without fresh noise.
    """
    shares, bases = margins(estimate), tuple(map(contrasts, moments.shape))
    sides = (moments.first, moments.second)
    cells = bases[0].shape[1] * bases[1].shape[1]
    information, score = np.zeros((cells, cells)), np.zeros(cells)
    for place, cohort in enumerate(moments.cohorts):
        number, mean = moments.reports[place], moments.sums[place] / moments.reports[place]
        centred = mean[1:, 1:] - np.outer(mean[1:, 0], mean[0, 1:])
        scores, grams, lasting = [], [], []
        for side, share, basis in zip(sides, shares, bases, strict=True):
            varied = side.designs[cohort] @ basis
            scored = np.linalg.solve(_bit_covariance(side, cohort, share), varied)
            scores.append(scored)
            grams.append(varied.T @ scored)
            shared = _bit_covariance(side, cohort, share, fresh=False)
            lasting.append(scored.T @ shared @ scored)
        information += number * np.kron(*grams)
        information += number * (moments.repetition - 1) * np.kron(*lasting)
        score += number * (scores[0].T @ centred @ scores[1]).ravel()
    return chi_squared(score, information, level)


def _bit_covariance(side: Side, cohort: int, shares: Floats, *, fresh: bool = True) -> Floats:
    """Covariance of the debiased bits of one report, (k, k), if devices hold `shares`.

    fresh: or that of two reports of one device, which share no fresh noise.
    """
    design = side.designs[cohort]
    mean = design @ shares
    matrix = (design * shares) @ design.T - np.outer(mean, mean)
    ones, zeros = side.bit_noise(fresh=fresh)
    np.fill_diagonal(matrix, mean * (1 - mean) + mean * ones + (1 - mean) * zeros)
    return np.asarray(matrix)


def _gram(side: Side, cohort: int) -> Floats:
    """K = X' W X, (M, M)."""
    return np.asarray(side.extended(cohort).T @ side.weighted(cohort))


def _squares(side: Side, cohort: int, *, fresh: bool) -> Floats:
    """Phi_x = X' W (b b' + D) W X of each value x with bits b, (M, M, M).

    D: noise of each bit, and the spread of a bit that is set with a chance.  fresh: see
    `_bit_covariance`.
    """
    bits, weighted = side.extended(cohort), side.weighted(cohort)
    spread = side.spread(bits, fresh=fresh)
    means = weighted.T @ bits  # column x: X' W b_x
    noise = np.einsum("ka,kx,kb->xab", weighted, spread, weighted, optimize=True)
    return np.asarray(means.T[:, :, None] * means.T[:, None, :] + noise)


def _products(rows: Floats, shares: Floats, columns: Floats) -> Floats:
    """E = sum over x, y of P_xy (Phi_x kron Phi_y), (M1 M2, M1 M2)."""
    first, second = len(rows), len(columns)
    flat = rows.reshape(first, -1).T @ shares @ columns.reshape(second, -1)
    four = flat.reshape(first, first, second, second).transpose(0, 2, 1, 3)
    return np.asarray(four.reshape(first * second, first * second))


def _factor(information: Floats) -> tuple[Floats, bool]:
    try:
        factor: tuple[Floats, bool] = cho_factor(information)
    except np.linalg.LinAlgError as error:
        raise ImproperError("values of a side cannot be told apart by their bits") from error
    diagonal = np.diag(factor[0])
    if float(diagonal.min()) < RANK * float(diagonal.max()):
        raise ImproperError(
            "two values of a side have the same bits in every cohort: leave one of them out"
        )
    return factor
