"""Posterior moments of sums of flows, for the departures and the gravity model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from decoder.flows.fit import FlowFit, rows_times
from decoder.flows.space import COARSE
from decoder.typing import Floats, Indices


@dataclass(frozen=True)
class Moments:
    """The moments of several sums L over pairs, (sums,) each: theta = fitted + departure + gravity.

    Let s = L u be the departure of a sum, and t = L T (x - fit) its gravity part, with T the
    derivatives of t0."""

    fitted: Floats  # L t0, at the fitted parameters
    departure: Floats  # Posterior mean of s
    prior: Floats  # Variance of s before the answers
    variance: Floats  # Posterior variance of s
    covariance: Floats  # Posterior covariance of s and t
    gravity_variance: Floats  # Posterior variance of t

    def posterior(self) -> tuple[Floats, Floats]:
        """Return posterior means and standard errors, which include the prior of the departure."""
        total = self.variance + 2 * self.covariance + self.gravity_variance
        return self.fitted + self.departure, np.sqrt(np.maximum(total, 0))

    def cavity(self) -> tuple[Floats, Floats]:
        """Return estimates and errors without the departures' prior; inf errors without answers."""
        information = 1 / self.variance - 1 / self.prior
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(information > 0, 1 / information, np.inf)
            ratio = self.covariance / self.variance
            moved = free * self.departure / self.variance
            estimate = self.fitted + moved + ratio * (moved - self.departure)
            variance = (1 + ratio) ** 2 * free + (
                self.gravity_variance - self.covariance**2 / self.variance
            )
        finite = np.isfinite(free)
        estimate = np.where(finite, estimate, self.fitted + self.departure)
        return estimate, np.where(finite, np.sqrt(np.maximum(variance, 0)), np.inf)


@dataclass(frozen=True)
class FlowMoments:
    """The moments of single pairs (computed by labels) and of any sums (by sparse products).

    In the unknowns of `FlowFit.system` (inverse K^-1), the departure of a sum falls by `slopes` and
    its t rises by `tangents`. The moments are quadratic forms in K^-1, plus the variance that the
    answers to `pair` leave."""

    fit: FlowFit

    @cached_property
    def _alpha(self) -> Floats:
        return self.fit.noise.shrunk * self.fit.shares

    @cached_property
    def _of_parameters(self) -> tuple[Indices, Floats]:
        gravity = self.fit.gravity
        level = np.full((1, len(self.fit.shares)), gravity.size)
        enters = np.concatenate([gravity.enters, np.ones_like(level)])
        return np.concatenate([gravity.labels, level]), enters

    @cached_property
    def _of_answers(self) -> tuple[Indices, Floats]:
        space, data = self.fit.gravity.space, self.fit.data
        first = np.cumsum([0, *(space.num_classes(name) for name in COARSE[:-1])])
        rows = np.array([space.classes(name) for name in COARSE]) + first[:, None]
        return self.fit.first_weight + rows, data.precision[rows]

    def _form(self, left: tuple[Indices, Floats], right: tuple[Indices, Floats]) -> Floats:
        total = np.zeros(len(self.fit.shares))
        for row, enters in zip(*left, strict=True):
            for column, enters_too in zip(*right, strict=True):
                total += enters * enters_too * self.fit.system.inverse_at(row, column)
        return total

    @cached_property
    def pairs(self) -> Moments:
        """The moments of each pair, (P,)."""
        fit, alpha, of_pair = self.fit, self._alpha, self.fit.noise.kept_variance
        ee = self._form(self._of_parameters, self._of_parameters)
        we = self._form(self._of_answers, self._of_parameters)
        ww = self._form(self._of_answers, self._of_answers)
        return Moments(
            fit.shares,
            fit.departures,
            fit.noise.variance,
            of_pair + alpha**2 * ee + 2 * alpha * of_pair * we + of_pair**2 * ww,
            -fit.shares * (alpha * ee + of_pair * we),
            fit.shares**2 * ee,
        )

    def of(self, sums: Any) -> Moments:
        """Return the moments of sparse sums (G, P)."""
        fit = self.fit
        slopes, tangents = self._rows(sums)
        squares = sums.multiply(sums).tocsr()
        spread, mixed, of_gravity = fit.system.forms(slopes, tangents)
        return Moments(
            sums @ fit.shares,
            sums @ fit.departures,
            squares @ fit.noise.variance,
            squares @ fit.noise.kept_variance + spread,
            -mixed,
            of_gravity,
        )

    def _rows(self, sums: Any) -> tuple[Any, Any]:
        """Return the sparse slopes and tangents (G, d) of sums (G, P)."""
        fit = self.fit
        slopes, tangents = (
            sums @ rows_times(weights, fit.entries) for weights in (self._alpha, fit.shares)
        )
        departures = sums @ rows_times(fit.noise.kept_variance, fit.data.sums.T)
        none = sparse.csr_array((sums.shape[0], 1))
        return (
            sparse.hstack([slopes, none, departures], format="csr"),
            sparse.hstack([tangents, none, 0 * departures], format="csr"),
        )
