"""Posterior samples of all shares together, where the fit of `cavity` has several summits.

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


@dataclass(frozen=True)
class Samples:
    """What S recorded sweeps say of M shares.

    shares: under the prior, (S, M).  centres: means of each share given the others and a flat
    prior of its own, (S, M), with the variances (M,).  weights: of the sweeps if the share had
    that flat prior, (S, M), columns of sum 1.
    """

    shares: Floats
    centres: Floats
    variances: Floats
    weights: Floats

    def of(self, some: Indices) -> Samples:
        """Those of some of the shares; one by one they do not depend on which others are kept."""
        columns = self.shares, self.centres, self.weights
        shares, centres, weights = (column[:, some] for column in columns)
        return Samples(shares, centres, self.variances[some], weights)

    def posterior_interval(self, level: float) -> tuple[Floats, Floats]:
        """Central interval under the prior that all shares have, (M,) each."""
        low, high = np.quantile(self.shares, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def flat_interval(self, level: float) -> tuple[Floats, Floats]:
        """Central interval of each share with a flat prior of its own on the real line, (M,) each.

        The others keep theirs. Given a share, the rest of the data has a known distribution, so
        that the interval covers any true share at its level (Pitman 1939).
        """
        points = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
        spread = np.sqrt(self.variances) * points[:, None]
        size = len(self.centres) * _POINTS, len(self.variances)
        values = (self.centres[:, None, :] + spread).reshape(size)
        order = np.argsort(values, axis=0)
        weights = np.repeat(self.weights / _POINTS, _POINTS, axis=0)
        passed = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
        ranked = np.take_along_axis(values, order, axis=0)
        low, high = (
            np.take_along_axis(ranked, (passed < tail).sum(axis=0, keepdims=True), axis=0)[0]
            for tail in ((1 - level) / 2, (1 + level) / 2)
        )
        return low, high

    @property
    def flat_estimates(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each share under its own flat prior, (M,) each."""
        mean = (self.weights * self.centres).sum(axis=0)
        spread = (self.weights * (self.centres - mean) ** 2).sum(axis=0)
        return mean, np.sqrt(spread + self.variances)

    @property
    def disagreement(self) -> Floats:
        """Distance of the means of both halves of the sweeps, in posterior deviations, (M,)."""
        half = len(self.shares) // 2
        apart = np.abs(self.shares[:half].mean(axis=0) - self.shares[half:].mean(axis=0))
        return np.asarray(apart / np.maximum(self.shares.std(axis=0), 1e-12))


def sample(gram: Floats, score: Floats, rng: np.random.Generator) -> Samples:
    """Sample shares given data of which they explain all but noise.

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
    an estimate under each of them, by temperature, (R, M, K).
    centre, marginal: of the coldest in its last sweep, (M,).
    """

    def __init__(self, gram: Floats, score: Floats, rng: np.random.Generator) -> None:
        self.gram, self.score, self.rng = gram, score, rng
        information = np.diag(gram)
        lowest = _FIRST / np.sqrt(np.median(information))
        steps = max(int(np.ceil(np.log(1 / lowest) / np.log(_RATIO))), 1)
        means = np.append(0.0, lowest * _RATIO ** np.arange(steps))
        self.means, self.spreads = means, (_WIDTH * means) ** 2
        total = TEMPERATURES[:, None, None] / information[:, None] + self.spreads
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
    """Draw each share given the others, in each replica, and count what it is drawn from."""
    size, kinds = len(gram), len(means)
    cumulated = np.empty(kinds)
    for level in range(len(order)):
        replica = order[level]
        for i in range(size):
            information = gram[i, i]
            estimate = shares[replica, i] + rest[replica, i] / information
            largest = -np.inf
            for g in range(kinds):
                off = estimate - means[g]
                log = log_weights[replica, g] + logs[level, i, g] - off * off * halves[level, i, g]
                cumulated[g] = log
                largest = max(largest, log)
            total = 0.0
            for g in range(kinds):
                if cumulated[g] > largest - 30:
                    total += np.exp(cumulated[g] - largest)
                cumulated[g] = total
            if level == 0:
                centre[i], marginal[i] = estimate, largest + np.log(total)
            g, limit = 0, uniforms[replica, i] * total
            while g < kinds - 1 and cumulated[g] < limit:
                g += 1
            counts[replica, g] += 1.0
            noise = temperatures[level] / information
            both = spreads[g] + noise
            mean = (estimate * spreads[g] + means[g] * noise) / both
            drawn = mean + np.sqrt(spreads[g] * noise / both) * normals[replica, i]
            step = max(drawn, 0.0) - shares[replica, i]
            if step != 0.0:
                shares[replica, i] += step
                for j in range(size):
                    rest[replica, j] -= gram[i, j] * step
