"""The gravity model of flows: shares of pairs from origin, destination, distance, own cell and
zones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from decoder.flows.space import FlowSpace
from decoder.typing import Floats, Indices

SIDE_PRECISION = 0.25  # of the priors, independent and normal with mean 0, of log shares
KNOWN_SIDE_PRECISION = 4.0  # where a known matrix has the sides already
BAND_PRECISION = 0.02
OWN_PRECISION = 1.0
ZONE_PRECISION = 4.0


@dataclass(frozen=True)
class Gravity:
    """t0 = softmax of offset + a_origin + b_destination + f_band + own_cell + z_zones.

    The parameters x (n,) stand in this order: a, b, own (each one a side), f, z.

    offset: (P,) logarithm of a known matrix, or 0.
    """

    space: FlowSpace
    offset: Floats
    side_precision: float = SIDE_PRECISION

    @property
    def size(self) -> int:
        """Number of parameters, n."""
        return len(self.precision)

    @cached_property
    def precision(self) -> Floats:
        """(n,) precisions of the priors."""
        sides, zones = self.space.num_sides, self.space.num_classes("zones")
        return np.concatenate(
            [
                np.full(2 * sides, self.side_precision),
                np.full(sides, OWN_PRECISION),
                np.full(self.space.num_bands, BAND_PRECISION),
                np.full(zones, ZONE_PRECISION),
            ]
        )

    @cached_property
    def labels(self) -> Indices:
        """(4 or 5, P) parameters of each pair; n, one past the last, where it has no own cell."""
        space, sides = self.space, self.space.num_sides
        own = np.where(space.same == 1, 2 * sides + space.origin, self.size)
        first_band = 3 * sides
        return np.array(
            [
                space.origin,
                sides + space.destination,
                own,
                first_band + space.band,
                first_band + space.num_bands + space.zone_pair,
            ]
        )

    @cached_property
    def incidence(self) -> Any:
        """(P, n) sparse: 1 where a parameter enters the logarithm of a pair's share."""
        labels = self.labels
        pairs = np.tile(np.arange(labels.shape[1]), len(labels))
        flat = labels.ravel()
        held = flat < self.size
        shape = (labels.shape[1], self.size)
        return sparse.csr_array((np.ones(held.sum()), (pairs[held], flat[held])), shape=shape)

    def shares(self, parameters: Floats) -> Floats:
        """(P,) t0 at parameters (n,)."""
        logs = self.offset + self.incidence @ parameters
        powers = np.exp(logs - logs.max())
        return np.asarray(powers / powers.sum())

    def start(self, origins: Floats, destinations: Floats) -> Floats:
        """Parameters (n,) whose sides are in proportion to shares (K + 2,) of both margins."""
        parameters = np.zeros(self.size)
        sides = self.space.num_sides
        for first, margin in ((0, origins), (sides, destinations)):
            logs = np.log(np.maximum(margin, 0.1 / sides))
            parameters[first : first + sides] = logs - logs.mean()
        return parameters


@dataclass(frozen=True)
class Tangent:
    """T = dt0/dx (P, n), never held dense: t0 (incidence - 1 mean')."""

    gravity: Gravity
    shares: Floats

    @cached_property
    def mean(self) -> Floats:
        """(n,) share of people that each parameter enters the pair of."""
        return np.asarray(self.gravity.incidence.T @ self.shares)

    def summed(self, sums: Any, weights: Floats) -> Floats:
        """(groups, n): `sums` (groups, P) times diag(weights) times T."""
        scaled = weights * self.shares
        groups = sums @ self.gravity.incidence.multiply(scaled[:, None]).tocsr()
        return np.asarray(groups.toarray() - np.outer(sums @ scaled, self.mean))

    def squared(self, weights: Floats) -> Floats:
        """(n, n): T' diag(weights) T."""
        scaled = weights * self.shares**2
        entries = self.gravity.incidence
        own = (entries.T @ entries.multiply(scaled[:, None]).tocsr()).toarray()
        cross = np.outer(entries.T @ scaled, self.mean)
        return np.asarray(own - cross - cross.T + scaled.sum() * np.outer(self.mean, self.mean))

    def transposed(self, values: Floats) -> Floats:
        """(n,): T' times values (P,)."""
        scaled = self.shares * values
        return np.asarray(self.gravity.incidence.T @ scaled - scaled.sum() * self.mean)
