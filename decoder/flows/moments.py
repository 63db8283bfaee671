"""Posterior moments of sums of flows: of their departures and of what gravity says of them; and
shares among those of one origin, ratios of two sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from decoder.flows.fit import FlowFit, rows_times
from decoder.flows.space import COARSE
from decoder.inference.intervals import fieller
from decoder.typing import Floats, Indices

_ABOVE = 1 + 1e-9  # where nothing is known, the error is very large instead of infinite


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
        return Moments(*(part[rows] for part in vars(self).values()))

    def posterior(self) -> tuple[Floats, Floats]:
        """Mean and standard error with the prior of the departure."""
        total = self.variance + 2 * self.covariance + self.gravity_variance
        return self.fitted + self.departure, np.sqrt(np.maximum(total, 0))

    def cavity(self) -> tuple[Floats, Floats]:
        """Estimate and standard error with the prior of the own departure taken out.

        The other departures keep theirs. A departure of which the answers say nothing has an
        infinite error.
        """
        information = 1 / self.variance - 1 / self.prior
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(information > 0, 1 / information, np.inf)
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

    Given the unknowns of `FlowFit.system`, of inverse K^-1, the departure of a sum falls with them
    by `slopes` v and its t rises by `tangents` q, sparse rows: the moments are forms in K^-1, to
    which the variance is added that the answers to `pair` leave.
    """

    fit: FlowFit

    @cached_property
    def _alpha(self) -> Floats:
        return self.fit.noise.shrunk * self.fit.shares

    @cached_property
    def _of_parameters(self) -> tuple[Indices, Floats]:
        """(7, P) unknowns that are parameters of each pair, and the level; what each enters by."""
        gravity = self.fit.gravity
        level = np.full((1, len(self.fit.shares)), gravity.size)
        enters = np.concatenate([gravity.enters, np.ones_like(level)])
        return np.concatenate([gravity.labels, level]), enters

    @cached_property
    def _of_answers(self) -> tuple[Indices, Floats]:
        """(4, P) unknowns that are weights of answers about each pair; one over their errors."""
        space, data = self.fit.gravity.space, self.fit.data
        first = np.cumsum([0, *(space.num_classes(name) for name in COARSE[:-1])])
        rows = np.array([space.classes(name) for name in COARSE]) + first[:, None]
        return self.fit.first_weight + rows, data.precision[rows]

    def _form(self, left: tuple[Indices, Floats], right: tuple[Indices, Floats]) -> Floats:
        """(P,) sum over two groups of unknowns of each pair of their entries in K^-1."""
        total = np.zeros(len(self.fit.shares))
        for row, enters in zip(*left, strict=True):
            for column, enters_too in zip(*right, strict=True):
                total += enters * enters_too * self.fit.system.inverse_at(row, column)
        return total

    @cached_property
    def pairs(self) -> Moments:
        """Moments of each pair (P,)."""
        fit, alpha, kept = self.fit, self._alpha, self.fit.noise.kept_variance
        ee = self._form(self._of_parameters, self._of_parameters)
        we = self._form(self._of_answers, self._of_parameters)
        ww = self._form(self._of_answers, self._of_answers)
        return Moments(
            fit.shares,
            fit.departures,
            fit.noise.variance,
            kept + alpha**2 * ee + 2 * alpha * kept * we + kept**2 * ww,
            -fit.shares * (alpha * ee + kept * we),
            fit.shares**2 * ee,
        )

    def of(self, sums: Any) -> Moments:
        """Moments of sums (G, P), sparse."""
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

    def with_origins(self, sums: Any, origin: Indices) -> Together:
        """Cross moments of each pair (P,) with the sum (K + 2, P) of its origin."""
        fit, alpha, kept = self.fit, self._alpha, self.fit.noise.kept_variance

        def own(rows: Any) -> tuple[Floats, Floats]:
            """Forms of the slopes and of the tangents of pairs with the row of their origin."""
            solved = fit.system.solve(rows.toarray().T)
            entered, from_answers = (
                sum(weight * solved[row, origin] for row, weight in zip(*group, strict=True))
                for group in (self._of_parameters, self._of_answers)
            )
            return alpha * entered + kept * from_answers, fit.shares * entered

        of_slopes, of_tangents = (own(rows) for rows in self._rows(sums))
        return Together(
            fit.noise.variance,
            kept + of_slopes[0],
            -of_tangents[0],
            -of_slopes[1],
            of_tangents[1],
        )

    def _rows(self, sums: Any) -> tuple[Any, Any]:
        """Slopes and tangents (G, d) of sums (G, P), sparse."""
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


def ratios(
    part: Moments, whole: Moments, both: Together, quantile: float
) -> tuple[Floats, Floats, Floats]:
    """Ratios part / whole within 0 and 1, with the ends of their intervals.

    The prior of both departures is taken out together, as `Moments.cavity` does for one. The test
    of part - ratio * whole = 0 is not rejected between the ends (Fieller 1954).

    Args:
        part, whole, both: moments of the sums, (rows,) each, and of one with the other.
        quantile: of the normal distribution, of half of the level left out.

    Returns:
        Ratio, lower and upper end, (rows,) each; 0 and 1 are the ends where the answers tell
        nothing.
    """
    value, covariance = _joint_cavity(part, whole, both)
    found = fieller(
        (value[:, 0], covariance[:, 0, 0]),
        (value[:, 1], covariance[:, 1, 1]),
        covariance[:, 0, 1],
        quantile,
    )
    ratio = np.clip(np.nan_to_num(found.estimate, nan=0.5), 0, 1)
    return ratio, np.clip(found.low, 0, 1), np.clip(found.high, 0, 1)


def _joint_cavity(part: Moments, whole: Moments, both: Together) -> tuple[Floats, Floats]:
    """Estimates (rows, 2) and covariances (rows, 2, 2), without the prior of both departures."""
    prior = _square(part.prior, both.prior, both.prior, whole.prior)
    spread = _square(part.variance, both.variance, both.variance, whole.variance)
    cross = _square(part.covariance, both.forward, both.backward, whole.covariance)
    gravity = _square(part.gravity_variance, both.gravity, both.gravity, whole.gravity_variance)
    departure = np.stack([part.departure, whole.departure], axis=-1)
    fitted = np.stack([part.fitted, whole.fitted], axis=-1)
    # spread' = spread (prior - spread)^-1 prior: the inverse of spread^-1 - prior^-1
    free = spread @ np.linalg.solve(prior * _ABOVE - spread, prior)
    gain = np.linalg.solve(spread, cross)
    moved = np.einsum("rij,rj->ri", free, np.linalg.solve(spread, departure[..., None])[..., 0])
    follows = np.einsum("rji,rj->ri", gain, moved - departure)
    mixed = free @ gain
    covariance = free + mixed + mixed.swapaxes(1, 2) + gravity
    covariance -= gain.swapaxes(1, 2) @ (spread - free) @ gain
    return fitted + moved + follows, covariance


def _square(first: Floats, second: Floats, third: Floats, fourth: Floats) -> Floats:
    """Matrices (rows, 2, 2)."""
    return np.stack([first, second, third, fourth], axis=-1).reshape(-1, 2, 2)
