"""The fit of the gravity model and of the departures from it, whose size follows from the evidence.

The shares of pairs are theta = t0(x) + u, where u is normal with variance V = tau m t0 and m is the
mean share of a pair. The question `pair` is informative about each theta, the other questions about
R sums. Given x, everything is normal. u is integrated out, first by `pair`, which is diagonal, then
by the sums; x by Gauss-Newton and Laplace's approximation. Pairs of zones are eliminated as
diagonal blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from decoder.errors import ConvergenceError
from decoder.flows.space import COARSE, Answers, Gravity
from decoder.numerics.arrowhead import Arrowhead
from decoder.numerics.optimization import descend
from decoder.typing import Floats, Indices
from rappor_core.metrics.flow import ZONES

MIN_TAU = 0.3  # real matrices depart by at least this; without a minimum, weak data would yield 0
MAX_TAU = 1e4
_NO_TAU = 1e-6  # a gravity model without departures
_TOLERANCE = 1e-5  # nats that an additional step would gain
_STEPS = 30  # steps of the climb before its metric is recomputed
_METRICS = 10
_FIRST_FACTOR = 4.0  # the factor between two tried sizes of departures
_NEAR_FACTOR = 1.5
_LAST_FACTOR = 1.15
_RENEWALS = 6  # recomputations of V, which depends on x
_RENEWAL_TOLERANCE = 1e-3  # nats


@dataclass(frozen=True)
class FlowData:
    """Answers to `pair`, and to the R classes of the other questions in order, zones last."""

    pair: Answers
    coarse: Floats  # (R,) shares over standard errors
    precision: Floats  # (R,) inverse standard errors; 0 for a question without reports
    sums: Any  # (R, P) sparse; maps shares of pairs to `coarse`
    zones: Indices  # (Z,) indices of the rows for pairs of zones

    @classmethod
    def of(cls, gravity: Gravity, answers: Mapping[str, Answers]) -> Self:
        """Build the fit's data: the answers of all questions, concatenated."""
        precision = np.concatenate([answers[name].variance ** -0.5 for name in COARSE])
        shares = np.concatenate([answers[name].shares for name in COARSE])
        sums = sparse.vstack([gravity.space.sums(name) for name in COARSE], format="csr")
        scaled = sums.multiply(precision[:, None]).tocsr()
        size = len(precision)
        zones = np.arange(size - gravity.space.num_classes(ZONES), size)
        return cls(answers["pair"], precision * shares, precision, scaled, zones)


@dataclass(frozen=True)
class DepartureNoise:
    """The noise that departures u add to the answers, for a size tau."""

    data: FlowData
    tau: float
    scale: Floats  # (P,) shares to which the variances of the departures are proportional

    @cached_property
    def variance(self) -> Floats:
        """The variances V of the departures, (P,)."""
        return self.tau / len(self.scale) * self.scale

    @cached_property
    def weight(self) -> Floats:
        """The precision of each answer to `pair`, including its departure, (P,)."""
        return np.asarray(1 / (self.variance + self.data.pair.variance))

    @cached_property
    def shrunk(self) -> Floats:
        """The fraction of each departure that the answers to `pair` reveal, (P,)."""
        return self.variance * self.weight

    @cached_property
    def kept_variance(self) -> Floats:
        """The variances of the departures given the answers to `pair`, (P,)."""
        return self.variance * (1 - self.shrunk)

    @cached_property
    def coarse(self) -> Arrowhead:
        """The (R, R) covariance of the answers to all questions but `pair`, given x and `pair`."""
        sums = self.data.sums
        covariance = sums @ rows_times(self.kept_variance, sums.T)
        covariance += sparse.eye_array(sums.shape[0])
        return Arrowhead(covariance.tocsr(), self.data.zones[None, :])


@dataclass(frozen=True)
class FlowFit:
    """The model at parameters x (n,), linearized there, and its derived quantities."""

    gravity: Gravity
    data: FlowData
    parameters: Floats
    noise: DepartureNoise

    @classmethod
    def at(cls, gravity: Gravity, data: FlowData, parameters: Floats, tau: float) -> Self:
        """Return the model at parameters, with departures proportional to its shares."""
        noise = DepartureNoise(data, tau, gravity.shares(parameters))
        return cls(gravity, data, parameters, noise)

    @property
    def tau(self) -> float:
        """The size of the departures."""
        return self.noise.tau

    @cached_property
    def shares(self) -> Floats:
        """The gravity shares t0, (P,)."""
        return self.gravity.shares(self.parameters)

    def residuals(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return the answers minus the prediction from shares of pairs (P,).

        For `pair` they are (P,), 0 without reports. For the other questions (R,), the prediction
        includes the departures that `pair` reveals."""
        has_answers = np.isfinite(self.data.pair.variance)
        of_pairs = np.where(has_answers, self.data.pair.shares - shares, 0.0)
        predicted = self.data.sums @ (shares + self.noise.shrunk * of_pairs)
        return of_pairs, np.asarray(self.data.coarse - predicted)

    @cached_property
    def entries(self) -> Any:
        """The derivatives of log shares by the parameters and a common level, sparse (P, n + 1)."""
        level = sparse.csr_array(np.ones((len(self.shares), 1)))
        return sparse.hstack([self.gravity.incidence, level], format="csr")

    @cached_property
    def system(self) -> Arrowhead:
        """The matrix of the unknowns x (n,), level, multiplier and y (R,).

        It is the quadratic form of x about the fit as a saddle point, where y weighs the answers
        to questions other than `pair`. The level fixes the sum of shares, by the multiplier's row.
        """
        gravity, noise, sums, entries = self.gravity, self.noise, self.data.sums, self.entries
        precision = entries.T @ rows_times(noise.weight * self.shares**2, entries)
        precision += sparse.diags_array(np.append(gravity.precision, 0.0))
        moved = sums @ rows_times((1 - noise.shrunk) * self.shares, entries)
        kept_sum = sparse.csr_array((self.shares @ entries)[None, :])
        rows = [
            [precision, kept_sum.T, moved.T],
            [kept_sum, None, None],
            [moved, None, -noise.coarse.matrix],
        ]
        blocks = np.array([gravity.zones, self.first_weight + self.data.zones])
        return Arrowhead(sparse.block_array(rows, format="csr"), blocks)

    @property
    def first_weight(self) -> int:
        """The index in `system` of the first unknown that weighs an answer."""
        return self.gravity.size + 2

    def covariance_times(self, values: Floats) -> Floats:
        """Multiply the posterior covariance of x by values (n,)."""
        size = len(values)
        padded = np.pad(values, (0, self.system.matrix.shape[0] - size))
        return self.system.solve(padded)[:size]

    def objective(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior of parameters (n,), up to a constant, and its gradient.

        V is held constant."""
        noise, data = self.noise, self.data
        shares = self.gravity.shares(parameters)
        residual, coarse = self.residuals(shares)
        solved = noise.coarse.solve(coarse)
        pull = self.gravity.precision * parameters
        loss = float(residual @ (noise.weight * residual) + coarse @ solved + parameters @ pull)
        weighted = noise.weight * residual + (1 - noise.shrunk) * (data.sums.T @ solved)
        return 0.5 * loss, pull - self.gravity.slope(shares, weighted)

    @property
    def log_evidence(self) -> float:
        """The log probability of the answers with u and x integrated out, up to a constant."""
        has_answers = np.isfinite(self.data.pair.variance)
        determinants = -float(np.log(self.noise.weight[has_answers]).sum())
        determinants += self.system.log_determinant
        determinants -= float(np.log(self.gravity.precision).sum())
        return -0.5 * determinants - self.objective(self.parameters)[0]

    @cached_property
    def departures(self) -> Floats:
        """The posterior mean of u, (P,)."""
        of_pairs, coarse = self.residuals(self.shares)
        solved = self.noise.coarse.solve(coarse)
        direct = self.noise.shrunk * of_pairs
        return np.asarray(direct + self.noise.kept_variance * (self.data.sums.T @ solved))

    @property
    def mean(self) -> Floats:
        """The posterior mean of theta, (P,), not everywhere positive."""
        return self.shares + self.departures


def fit_flows(
    gravity: Gravity,
    data: FlowData,
    start: Floats,
    near: float | None = None,
    *,
    search: bool = True,
) -> FlowFit:
    """Fit the model; choose the size of the departures by the highest evidence.

    Args:
        gravity: The gravity model.
        data: The answers to all questions.
        start: The initial parameters (n,).
        near: The size of departures at which the search starts; None for the minimum.
        search: Whether to search; False to use the size `near`.

    Raises:
        ConvergenceError: There is no finite fit, or a step does not end.
    """
    best = _converged(FlowFit.at(gravity, data, start, near or MIN_TAU))
    if not search:
        return best
    tried = {best.tau}
    factor = _FIRST_FACTOR if near is None else _NEAR_FACTOR
    while factor > _LAST_FACTOR:
        for tau in (best.tau * factor, best.tau / factor):
            tau = min(max(tau, MIN_TAU), MAX_TAU)
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
    """Return the log evidence, in nats, for departures of the fitted size against no departures."""
    none = _converged(FlowFit.at(fit.gravity, fit.data, fit.parameters, _NO_TAU))
    return fit.log_evidence - none.log_evidence


def _converged(fit: FlowFit) -> FlowFit:
    """Alternate maximization at constant V and updates of V, until the gain is negligible.

    V moves half way to the new shares each time, since full updates may oscillate."""
    for _ in range(_RENEWALS):
        fit, gained = _climbed(fit)
        if gained < _RENEWAL_TOLERANCE:
            break
        noise = replace(fit.noise, scale=np.sqrt(fit.noise.scale * fit.shares))
        fit = replace(fit, noise=noise)
    return _climbed(fit)[0]


def _climbed(fit: FlowFit) -> tuple[FlowFit, float]:
    """Maximize the posterior at constant V; return the fit and the nats gained."""
    first = fit.objective(fit.parameters)[0]
    for _ in range(_METRICS):
        parameters, loss, steps = descend(
            fit.objective, fit.parameters, fit.covariance_times, _TOLERANCE, _STEPS
        )
        fit = replace(fit, parameters=parameters)
        if not np.isfinite(loss):
            break
        if steps < _STEPS:
            return fit, first - loss
    answers = len(fit.shares) + len(fit.data.coarse)
    off = (2 * abs(loss) / answers) ** 0.5
    raise ConvergenceError(
        f"the gravity model does not converge in {_METRICS * _STEPS} steps; answers are {off:.3g} "
        "standard errors off it, where those of independent reports are about 1: counts that were "
        "multiplied, added up twice or forged contradict each other, so decode those of a collector"
    )


def rows_times(weights: Floats, matrix: Any) -> Any:
    """Return diag(weights) times a sparse matrix."""
    return sparse.diags_array(weights) @ matrix
