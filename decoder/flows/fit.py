"""Fit the gravity model and the departures from it, whose size the evidence tells.

The shares of pairs are theta = t0(x) + u with u normal of variance V = tau m t0, m the mean share
of a pair. The question `pair` says something of each theta, the other questions of sums. Given x,
everything is normal: u is integrated out, first by `pair`, which is diagonal, then by the sums,
whose number R is small; x by Gauss-Newton and Laplace's approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from decoder.errors import ConvergenceError
from decoder.flows.answers import Answers
from decoder.flows.gravity import Gravity, Tangent
from decoder.flows.space import COARSE
from decoder.numerics.lbfgs import descend
from decoder.typing import Floats

LEAST_TAU = 0.3  # what real matrices depart by at least; without it weak data return 0
MOST_TAU = 1e4
_NO_TAU = 1e-6  # of a gravity model without departures
_TOLERANCE = 1e-5  # nats that a further step would gain
_STEPS = 30  # before the metric of the climb is taken afresh
_METRICS = 10
_HALVINGS = 30
_FIRST_FACTOR = 4.0  # between two sizes of departures that are tried
_NEAR_FACTOR = 1.5
_LAST_FACTOR = 1.15
_RENEWALS = 6  # of V, which moves with x
_RENEWAL_TOLERANCE = 1e-3  # nats


@dataclass(frozen=True)
class FlowData:
    """Answers to all questions, with a question without reports of infinite variance."""

    pair: Answers
    coarse: Answers  # the classes of all other questions, one after another
    sums: Any  # (R, P) sparse, of those classes

    @classmethod
    def of(cls, gravity: Gravity, answers: Mapping[str, Answers]) -> FlowData:
        """Join the answers by question."""
        asked = [name for name in COARSE if answers[name].num_reports]
        sums = [gravity.space.sums(name) for name in asked]
        none = np.zeros(0)
        coarse = Answers(
            np.concatenate([none, *(answers[name].shares for name in asked)]),
            np.concatenate([none, *(answers[name].variance for name in asked)]),
            sum(answers[name].num_reports for name in asked),
        )
        empty = sparse.csr_array((0, gravity.space.num_pairs))
        return cls(answers["pair"], coarse, sparse.vstack([empty, *sums], format="csr"))


@dataclass(frozen=True)
class DepartureNoise:
    """What departures u of given variances add to the noise of the answers.

    tau: size of the departures.  scale: (P,) shares that their variances are in proportion to.
    """

    data: FlowData
    tau: float
    scale: Floats

    @cached_property
    def variance(self) -> Floats:
        """(P,) V, of the departures."""
        return self.tau / len(self.scale) * self.scale

    @cached_property
    def weight(self) -> Floats:
        """(P,) precision of an answer to `pair`, with its departure."""
        return np.asarray(1 / (self.variance + self.data.pair.variance))

    @cached_property
    def shrunk(self) -> Floats:
        """(P,) part of the departure that an answer to `pair` tells."""
        return self.variance * self.weight

    @cached_property
    def kept_variance(self) -> Floats:
        """(P,) variance of the departures given the answers to `pair`."""
        return self.variance * (1 - self.shrunk)

    @cached_property
    def coarse_factor(self) -> Any:
        """Cholesky factor of the (R, R) covariance of the other answers, given x and `pair`."""
        sums = self.data.sums
        spread = (sums.multiply(self.kept_variance[None, :]).tocsr() @ sums.T).toarray()
        return linalg.cho_factor(spread + np.diag(self.data.coarse.variance), lower=True)

    def whitened(self, values: Floats) -> Floats:
        """Values (R, ...) of the other questions over the factor of their covariance."""
        factor, _ = self.coarse_factor
        return np.asarray(linalg.solve_triangular(factor, values, lower=True, check_finite=False))


@dataclass(frozen=True)
class FlowFit:
    """The model at parameters x (n,), linear about them; everything that follows from both."""

    gravity: Gravity
    data: FlowData
    parameters: Floats
    noise: DepartureNoise

    @classmethod
    def at(cls, gravity: Gravity, data: FlowData, parameters: Floats, tau: float) -> FlowFit:
        """The model at parameters, with departures of a size in proportion to its shares."""
        noise = DepartureNoise(data, tau, gravity.shares(parameters))
        return cls(gravity, data, parameters, noise)

    @property
    def tau(self) -> float:
        """Size of the departures."""
        return self.noise.tau

    @cached_property
    def shares(self) -> Floats:
        """(P,) t0."""
        return self.gravity.shares(self.parameters)

    @cached_property
    def tangent(self) -> Tangent:
        """dt0/dx."""
        return Tangent(self.gravity, self.shares)

    def residuals(self, shares: Floats) -> tuple[Floats, Floats]:
        """Answers less what shares of pairs (P,) predict: to `pair` (P,), 0 without reports; to the
        other questions (R,), of which `pair` has told a part."""
        known = np.isfinite(self.data.pair.variance)
        own = np.where(known, self.data.pair.shares - shares, 0.0)
        predicted = self.data.sums @ (shares + self.noise.shrunk * own)
        return own, np.asarray(self.data.coarse.shares - predicted)

    @cached_property
    def coarse_tangent(self) -> Floats:
        """(R, n): how the prediction of the other questions changes with x."""
        return self.tangent.summed(self.data.sums, 1 - self.noise.shrunk)

    @cached_property
    def coarse_solved(self) -> Floats:
        """(R, n): inverse covariance of the other questions times `coarse_tangent`."""
        return np.asarray(linalg.cho_solve(self.noise.coarse_factor, self.coarse_tangent))

    @cached_property
    def _white_tangent(self) -> Floats:
        return self.noise.whitened(self.coarse_tangent)

    @cached_property
    def parameter_factor(self) -> Any:
        """Cholesky factor of the (n, n) posterior precision of x."""
        precision = self.tangent.squared(self.noise.weight)
        precision += self._white_tangent.T @ self._white_tangent
        precision[np.diag_indices_from(precision)] += self.gravity.precision
        return linalg.cho_factor(precision, lower=True)

    def objective(self, parameters: Floats) -> tuple[float, Floats]:
        """Negative log posterior of parameters (n,), up to a constant, and its gradient, with V
        held."""
        noise, data = self.noise, self.data
        shares = self.gravity.shares(parameters)
        residual, coarse = self.residuals(shares)
        solved = linalg.cho_solve(noise.coarse_factor, coarse, check_finite=False)
        pull = self.gravity.precision * parameters
        loss = float(residual @ (noise.weight * residual) + coarse @ solved + parameters @ pull)
        told = noise.weight * residual + (1 - noise.shrunk) * (data.sums.T @ solved)
        return 0.5 * loss, pull - Tangent(self.gravity, shares).transposed(told)

    @property
    def log_evidence(self) -> float:
        """Log probability of the answers with u and x integrated out, up to a constant."""
        known = np.isfinite(self.data.pair.variance)
        determinants = -float(np.log(self.noise.weight[known]).sum())
        determinants += _log_determinant(self.noise.coarse_factor)
        determinants += _log_determinant(self.parameter_factor)
        determinants -= float(np.log(self.gravity.precision).sum())
        return -0.5 * determinants - self.objective(self.parameters)[0]

    @cached_property
    def departures(self) -> Floats:
        """(P,) posterior mean of u."""
        own, coarse = self.residuals(self.shares)
        solved = linalg.cho_solve(self.noise.coarse_factor, coarse)
        told = self.noise.shrunk * own
        return np.asarray(told + self.noise.kept_variance * (self.data.sums.T @ solved))

    @property
    def mean(self) -> Floats:
        """(P,) posterior mean of theta, not positive everywhere."""
        return self.shares + self.departures


def fit_flows(
    gravity: Gravity,
    data: FlowData,
    start: Floats,
    near: float | None = None,
    *,
    search: bool = True,
) -> FlowFit:
    """Fit the model with the size of the departures that has the highest evidence.

    Args:
        gravity: the model.
        data: answers.
        start: parameters (n,) to begin at.
        near: size of departures to begin the search at; None: the least.
        search: False to take that size.

    Returns:
        The fit.

    Raises:
        ConvergenceError: no finite fit, or a step that does not end.
    """
    best = _converged(FlowFit.at(gravity, data, start, near or LEAST_TAU))
    if not search:
        return best
    tried = {best.tau}
    factor = _FIRST_FACTOR if near is None else _NEAR_FACTOR
    while factor > _LAST_FACTOR:
        for tau in (best.tau * factor, best.tau / factor):
            tau = min(max(tau, LEAST_TAU), MOST_TAU)
            if tau in tried:
                continue
            tried.add(tau)
            fit = _converged(FlowFit.at(gravity, data, best.parameters, tau))
            if fit.log_evidence > best.log_evidence:
                best = fit
                break
        else:
            factor = factor**0.5
    return best


def no_departures(fit: FlowFit) -> float:
    """Log evidence of departures of the size found over none at all, nats."""
    none = _converged(FlowFit.at(fit.gravity, fit.data, fit.parameters, _NO_TAU))
    return fit.log_evidence - none.log_evidence


def _converged(fit: FlowFit) -> FlowFit:
    """Climb with V held, then renew V half way to the new shares, until that gains next to nothing.

    Whole renewals go to and fro where departures are large; after the last, V is held.
    """
    for _ in range(_RENEWALS):
        fit, gained = _climbed(fit)
        if gained < _RENEWAL_TOLERANCE:
            break
        noise = replace(fit.noise, scale=np.sqrt(fit.noise.scale * fit.shares))
        fit = replace(fit, noise=noise)
    return _climbed(fit)[0]


def _climbed(fit: FlowFit) -> tuple[FlowFit, float]:
    """Climb to the summit with V held: the fit there, and nats gained.

    By L-BFGS from the metric of Gauss and Newton, which leaves out the curvature of t0.
    """
    first = fit.objective(fit.parameters)[0]
    for _ in range(_METRICS):
        factor = fit.parameter_factor

        def metric(slope: Floats, factor: Any = factor) -> Floats:
            return np.asarray(linalg.cho_solve(factor, slope, check_finite=False))

        parameters, loss, steps = descend(fit.objective, fit.parameters, metric, _TOLERANCE, _STEPS)
        fit = replace(fit, parameters=parameters)
        if not np.isfinite(loss):
            break
        if steps < _STEPS:
            return fit, first - loss
    raise ConvergenceError(
        f"the gravity model does not converge in {_METRICS * _STEPS} steps: use a longer window, "
        "or coarser cells"
    )


def _log_determinant(factor: Any) -> float:
    return 2 * float(np.log(np.diag(factor[0])).sum())
