"""Posterior samples of all shares together, where the fit of `cavity` has several modes.

Gibbs sampling of a regression with a spike and a ladder of bumps (George and McCulloch 1993), one
share at a time by the Gram matrix, with parallel tempering (Geyer 1991): replicas at rising
temperatures exchange states, so that the coldest passes from one explanation of the data to
another. The prior's weights are sampled too. Derivation: docs/method.md, "Crowded lists and maps".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from decoder.numerics.bit_tensor import compiled
from decoder.typing import Floats, Indices

TEMPERATURES = 1.5 ** np.arange(10)
SWEEPS = 3000
WARM_UP = 0.2  # part of the sweeps that is thrown away
KEEP_EVERY = 2
MOST_UPDATES = 550_000  # shares times sweeps of a replica: a second or two
_RATIO, _WIDTH, _FIRST = 1.6, 0.25, 0.4  # of the bumps; the first in standard errors
_ZERO, _BUMP = 1.0, 0.3  # Dirichlet pseudo-counts of the spike and of each bump
_REFRESH = 50  # sweeps after which the rounding of updates is removed
_POINTS = 8  # quantiles of a normal that stand for it
_NOTHING = -30.0  # logarithm of what is nothing beside the largest term of a sum
_STEP = np.log(2) / 16  # of the logarithms whose powers are tabulated
_POWERS = np.exp(-_STEP * np.arange(int(-_NOTHING / _STEP) + 2))


@dataclass(frozen=True)
class Samples:
    """Recorded Gibbs sweeps of M shares.

    shares: under the prior, (S, M).  centres: means of each share given the others and a flat
    prior of its own, (S, M), with the variances (M,).  weights: of the sweeps if the share had
    that flat prior, (S, M), columns of sum 1.
    """

    shares: Floats
    centres: Floats
    variances: Floats
    weights: Floats

    def of(self, some: Indices) -> Samples:
        """The samples of some of the shares."""
        columns = self.shares, self.centres, self.weights
        shares, centres, weights = (column[:, some] for column in columns)
        return Samples(shares, centres, self.variances[some], weights)

    def posterior_interval(self, level: float) -> tuple[Floats, Floats]:
        """Central posterior interval of each share under the learnt prior, (M,) each."""
        low, high = np.quantile(self.shares, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def flat_interval(self, level: float) -> tuple[Floats, Floats]:
        """Central interval of each share under a flat prior of its own on the real line, (M,)
        each.

        The others keep theirs. Given a share, the rest of the data has a known distribution, so
        that the interval covers any true share at its level (Pitman 1939).
        """
        points = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
        spread = np.sqrt(self.variances) * points[:, None]
        size = len(self.centres) * _POINTS, len(self.variances)
        values = (self.centres[:, None, :] + spread).reshape(size)
        weights = np.repeat(self.weights / _POINTS, _POINTS, axis=0)
        tails = (1 - level) / 2, (1 + level) / 2
        ends = [_quantiles(*each, tails) for each in zip(values.T, weights.T, strict=True)]
        low, high = np.array(ends).reshape(-1, 2).T
        return low, high

    @property
    def flat_estimates(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each share under its own flat prior, (M,) each."""
        mean = (self.weights * self.centres).sum(axis=0)
        spread = (self.weights * (self.centres - mean) ** 2).sum(axis=0)
        return mean, np.sqrt(spread + self.variances)

    @property
    def disagreement(self) -> Floats:
        """Difference between the means of both halves of the sweeps, in posterior deviations,
        (M,)."""
        half = len(self.shares) // 2
        apart = np.abs(self.shares[:half].mean(axis=0) - self.shares[half:].mean(axis=0))
        return np.asarray(apart / np.maximum(self.shares.std(axis=0), 1e-12))


def _quantiles(values: Floats, weights: Floats, parts: tuple[float, float]) -> Floats:
    """The values, (N,), below which lie `parts` of their weights, which sum to 1: (2,)."""
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    return np.asarray(values[order[np.searchsorted(passed, parts)]])


def sample(gram: Floats, score: Floats, rng: np.random.Generator) -> Samples:
    """Draw Gibbs samples of all shares from their posterior.

    gram: Z' W Z, (M, M), and score: Z' W y, (M,), with columns Z, data y and W the inverse
    covariance of the noise. Draws from `rng` alone: the same state of it gives the same samples.
    """
    sweeps = int(min(SWEEPS, max(MOST_UPDATES // len(score), SWEEPS // 10)))
    chain = _Chain(gram, score, rng)
    first, kept = int(sweeps * WARM_UP), []
    for number in range(sweeps):
        if number % _REFRESH == 0:
            chain.refresh()
        chain.sweep()
        if number >= first and number % KEEP_EVERY == 0:
            kept.append(chain.record())
        chain.exchange(number % 2)
    shares, centres, logs = (np.array(column) for column in zip(*kept, strict=True))
    weights = np.exp(logs.min(axis=0) - logs)
    return Samples(shares, centres, 1 / np.diag(gram), weights / weights.sum(axis=0))


class _Chain:
    """Replicas of the sampler, one a temperature; exchanging states is exchanging indices.

    shares, rest = score - gram shares: (R, M).  order: the replica at each temperature.
    means, spreads: of the spike, the first, and the bumps, (K,).  halves, logs: of the density of
    an estimate under each of them, by temperature, (M, K, R).
    centre, marginal: of the coldest in its last sweep, (M,).
    """

    def __init__(self, gram: Floats, score: Floats, rng: np.random.Generator) -> None:
        self.gram, self.score, self.rng = gram, score, rng
        information = np.diag(gram)
        lowest = _FIRST / np.sqrt(np.median(information))
        steps = max(int(np.ceil(np.log(1 / lowest) / np.log(_RATIO))), 1)
        means = np.append(0.0, lowest * _RATIO ** np.arange(steps))
        self.means, self.spreads = means, (_WIDTH * means) ** 2
        total = TEMPERATURES / information[:, None, None] + self.spreads[:, None]
        self.halves, self.logs = 0.5 / total, -0.5 * np.log(total)
        self.counts = np.append(_ZERO, np.full(len(means) - 1, _BUMP))
        shape = len(TEMPERATURES), len(score)
        self.log_weights = np.tile(np.log(self.counts / self.counts.sum()), (shape[0], 1))
        self.shares, self.rest = np.zeros(shape), np.tile(score, (shape[0], 1))
        self.order = np.arange(shape[0])
        self.centre, self.marginal = np.zeros(shape[1]), np.zeros(shape[1])

    def refresh(self) -> None:
        """Compute the rest anew."""
        self.rest = self.score - self.shares @ self.gram

    def sweep(self) -> None:
        """Draw every share of every replica, then the weights of the prior."""
        uniforms = self.rng.random(self.shares.shape)
        normals = self.rng.standard_normal(self.shares.shape)
        tables = self.means, self.spreads, self.log_weights, self.halves, self.logs
        counts = np.tile(self.counts, (len(TEMPERATURES), 1))
        state = self.shares, counts, self.rest, self.centre, self.marginal
        _sweep(self.gram, TEMPERATURES, self.order, *tables, uniforms, normals, *state)
        drawn = self.rng.standard_gamma(counts)
        drawn = np.maximum(drawn, np.finfo(float).tiny)
        self.log_weights = np.log(drawn / drawn.sum(axis=1, keepdims=True))

    def exchange(self, first: int) -> None:
        """Metropolis exchange of the states of neighbouring temperatures, from `first` on."""
        loss = -0.5 * (self.shares * (self.score + self.rest)).sum(axis=1)
        for cold in range(first, len(TEMPERATURES) - 1, 2):
            one, other = self.order[cold : cold + 2]
            gain = (1 / TEMPERATURES[cold] - 1 / TEMPERATURES[cold + 1]) * (loss[one] - loss[other])
            if np.log(self.rng.random()) < gain:
                self.order[cold], self.order[cold + 1] = other, one

    def record(self) -> tuple[Floats, Floats, Floats]:
        """Shares of the coldest, their conditional means and log marginals, (M,) each."""
        return self.shares[self.order[0]].copy(), self.centre.copy(), self.marginal.copy()


@compiled
def _sweep(
    gram: Any,
    temperatures: Any,
    order: Any,
    means: Any,
    spreads: Any,
    log_weights: Any,
    halves: Any,
    logs: Any,
    uniforms: Any,
    normals: Any,
    shares: Any,
    counts: Any,
    rest: Any,
    centre: Any,
    marginal: Any,
) -> None:
    """Draw each share given the others, in each replica, and count what it is drawn from.

    The replicas of one share are handled together: what is computed of each kind and temperature
    stands side by side, (K, R).
    """
    size, kinds, levels = len(gram), len(means), len(order)
    log_prior = log_weights[order].T.copy()
    cumulated, powers = np.empty((kinds, levels)), np.empty((kinds, levels))
    estimates, largest, total = np.empty(levels), np.empty(levels), np.empty(levels)
    chosen = np.empty(levels, np.int64)
    for i in range(size):
        information = gram[i, i]
        for level in range(levels):
            replica = order[level]
            estimates[level] = shares[replica, i] + rest[replica, i] / information
            largest[level], total[level], chosen[level] = -np.inf, 0.0, 0
        for g in range(kinds):
            for level in range(levels):
                off = estimates[level] - means[g]
                log = log_prior[g, level] + logs[i, g, level] - off * off * halves[i, g, level]
                cumulated[g, level] = log
                largest[level] = max(largest[level], log)
        for g in range(kinds):
            for level in range(levels):
                cumulated[g, level] -= largest[level]
        _exponentials(cumulated.reshape(-1), powers.reshape(-1))
        for g in range(kinds):
            for level in range(levels):
                total[level] += powers[g, level]
                cumulated[g, level] = total[level]
        centre[i], marginal[i] = estimates[0], largest[0] + np.log(total[0])
        for level in range(levels):
            limit = uniforms[order[level], i] * total[level]
            for g in range(kinds - 1):
                chosen[level] += cumulated[g, level] < limit
        for level in range(levels):
            replica, g = order[level], chosen[level]
            counts[replica, g] += 1.0
            noise = temperatures[level] / information
            both = spreads[g] + noise
            mean = (estimates[level] * spreads[g] + means[g] * noise) / both
            drawn = mean + np.sqrt(spreads[g] * noise / both) * normals[replica, i]
            step = max(drawn, 0.0) - shares[replica, i]
            if step != 0.0:
                shares[replica, i] += step
                for j in range(size):
                    rest[replica, j] -= gram[i, j] * step


@compiled
def _exponentials(logs: Any, powers: Any) -> None:
    """exp of logs <= 0, (N,), to the last few bits; 0 up to _NOTHING. Several at once: no calls."""
    for i in range(len(logs)):
        log = max(logs[i], _NOTHING)
        steps = np.int32(0.5 - log / _STEP)
        x = log + steps * _STEP
        series = 1 / 24 + x * (1 / 120 + x * (1 / 720))
        series = 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * series)))
        powers[i] = _POWERS[np.uint32(steps)] * series if logs[i] > _NOTHING else 0.0
