"""Posterior moments of sums of flows: of their departures and of what gravity says of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from decoder.flows.fit import FlowFit
from decoder.typing import Floats, Indices


@dataclass(frozen=True)
class Moments:
    """Of several sums L of pairs, each entry (sums,): theta = fitted + departure + gravity.

    fitted: L t0, at the parameters of the fit.  departure: posterior mean of s = L u.
    prior: variance of s before the answers.  variance, covariance, gravity_variance: of s, of s
    with t, and of t = L T (x - fit) after them.
    """

    fitted: Floats
    departure: Floats
    prior: Floats
    variance: Floats
    covariance: Floats
    gravity_variance: Floats

    def at(self, rows: Indices) -> Moments:
        """Some of the sums, in any order and as often as wanted."""
        return Moments(
            self.fitted[rows],
            self.departure[rows],
            self.prior[rows],
            self.variance[rows],
            self.covariance[rows],
            self.gravity_variance[rows],
        )

    def posterior(self) -> tuple[Floats, Floats]:
        """Mean and standard error with the prior of the departure."""
        total = self.variance + 2 * self.covariance + self.gravity_variance
        return self.fitted + self.departure, np.sqrt(np.maximum(total, 0))

    def cavity(self) -> tuple[Floats, Floats]:
        """Estimate and standard error with the prior of the own departure taken out.

        The other departures keep theirs. A departure of which the answers say nothing has an
        infinite error.
        """
        told = 1 / self.variance - 1 / self.prior
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(told > 0, 1 / told, np.inf)
            ratio = self.covariance / self.variance
            moved = free * self.departure / self.variance
            estimate = self.fitted + moved + ratio * (moved - self.departure)
            variance = (1 + ratio) ** 2 * free + (
                self.gravity_variance - self.covariance**2 / self.variance
            )
        known = np.isfinite(free)
        estimate = np.where(known, estimate, self.fitted + self.departure)
        return estimate, np.where(known, np.sqrt(np.maximum(variance, 0)), np.inf)


@dataclass(frozen=True)
class Together:
    """Cross moments of parts with their wholes, in the order of `Moments`: (rows,) each.

    prior, variance: of both departures.  forward: of the part's departure with the whole's t;
    backward: of the whole's departure with the part's t.  gravity: of both t.
    """

    prior: Floats
    variance: Floats
    forward: Floats
    backward: Floats
    gravity: Floats


@dataclass(frozen=True)
class FlowMoments:
    """Moments of single pairs by labels, and of any sums by sparse products.

    With e the incidence of a pair's parameters and c its classes of the coarse questions, the
    departure of a pair changes with x by - (alpha (e - mean) + kept W c), W = `coarse_solved`.
    """

    fit: FlowFit

    @cached_property
    def _inverse(self) -> Floats:
        """(n, n) posterior covariance of x."""
        return np.asarray(
            linalg.cho_solve(self.fit.parameter_factor, np.eye(self.fit.gravity.size))
        )

    @cached_property
    def _coarse_inverse(self) -> Floats:
        """(R, R) inverse covariance of the coarse answers, given x."""
        size = len(self.fit.data.coarse.shares)
        return np.asarray(linalg.cho_solve(self.fit.noise.coarse_factor, np.eye(size)))

    @cached_property
    def _alpha(self) -> Floats:
        return self.fit.noise.shrunk * self.fit.shares

    @cached_property
    def _classes(self) -> Indices:
        """(coarse questions, P) class of each pair."""
        columns = self.fit.data.sums.tocsc()
        columns.sort_indices()
        return np.asarray(columns.indices.reshape(len(self.fit.shares), -1).T)

    @cached_property
    def pairs(self) -> Moments:
        """Moments of each pair (P,)."""
        fit, labels, classes = self.fit, self.fit.gravity.labels, self._classes
        mean = fit.tangent.mean
        inverse, solved = self._inverse, fit.coarse_solved
        centre = inverse @ mean
        padded = np.pad(inverse, ((0, 1), (0, 1)))  # of a pair without an own cell
        ee = _looked_up(padded, labels, labels)
        ee += float(mean @ centre) - 2 * np.pad(centre, (0, 1))[labels].sum(axis=0)
        mixed = solved @ inverse
        we = _looked_up(np.pad(mixed, ((0, 0), (0, 1))), classes, labels)
        we -= (mixed @ mean)[classes].sum(axis=0)
        ww = _looked_up(mixed @ solved.T, classes, classes)
        cc = _looked_up(self._coarse_inverse, classes, classes)
        alpha, kept, shares = self._alpha, fit.noise.kept_variance, fit.shares
        return Moments(
            shares,
            fit.departures,
            fit.noise.variance,
            kept - kept**2 * cc + alpha**2 * ee + 2 * alpha * kept * we + kept**2 * ww,
            -shares * (alpha * ee + kept * we),
            shares**2 * ee,
        )

    def of(self, sums: Any) -> Moments:
        """Moments of sums (G, P), sparse."""
        fit = self.fit
        slopes, tangents, reach = self._reach(sums)
        kept = sums.multiply(sums).tocsr() @ fit.noise.kept_variance
        inner = kept - np.einsum("gr,gr->g", reach @ self._coarse_inverse, reach)
        spread = slopes @ self._inverse
        return Moments(
            sums @ fit.shares,
            sums @ fit.departures,
            sums.multiply(sums).tocsr() @ fit.noise.variance,
            inner + np.einsum("gn,gn->g", spread, slopes),
            -np.einsum("gn,gn->g", spread, tangents),
            np.einsum("gn,gn->g", tangents @ self._inverse, tangents),
        )

    def with_origins(self, sums: Any, origin: Indices) -> Together:
        """Cross moments of each pair (P,) with the sum (K + 2, P) of its origin."""
        fit, labels, classes = self.fit, self.fit.gravity.labels, self._classes
        slopes, tangents, reach = self._reach(sums)
        alpha, kept, shares = self._alpha, fit.noise.kept_variance, fit.shares

        def own(of: Floats) -> tuple[Floats, Floats]:
            """Rows T_i and H_i of the pairs, each times G times the row `of` their origin."""
            solved = self._inverse @ of.T  # (n, K + 2)
            padded = np.pad(solved, ((0, 1), (0, 0)))
            entered = padded[labels, origin].sum(axis=0) - (fit.tangent.mean @ solved)[origin]
            coarse = (fit.coarse_solved @ solved)[classes, origin].sum(axis=0)
            return shares * entered, alpha * entered + kept * coarse

        of_slopes, of_tangents = own(slopes), own(tangents)
        seen = (self._coarse_inverse @ reach.T)[classes, origin].sum(axis=0)
        return Together(
            fit.noise.variance,
            kept - kept * seen + of_slopes[1],
            -of_tangents[1],
            -of_slopes[0],
            of_tangents[0],
        )

    def _reach(self, sums: Any) -> tuple[Floats, Floats, Floats]:
        """Of sums: (G, n) how departures fall as x rises; (G, n) L T; (G, R) L U A'."""
        fit = self.fit
        kept = sums.multiply(fit.noise.kept_variance[None, :]).tocsr()
        reach = np.asarray((kept @ fit.data.sums.T).toarray())
        slopes = fit.tangent.summed(sums, fit.noise.shrunk) + reach @ fit.coarse_solved
        return slopes, fit.tangent.summed(sums, np.ones(len(fit.shares))), reach


def _looked_up(matrix: Floats, rows: Indices, columns: Indices) -> Floats:
    """(P,) sum of the entries of a matrix at all rows and columns of each pair."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        for column in columns:
            total += matrix[row, column]
    return total
