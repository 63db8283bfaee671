"""The gravity model of flows: shares of pairs from origin, destination, distance, own cell and
zones."""

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
SLOPE_PRECISION = 0.25
OWN_PRECISION = 1.0
ZONE_PRECISION = 4.0


@dataclass(frozen=True)
class Gravity:
    """t0 = softmax of offset + a_origin + b_destination + f_band + s distance + own_cell + z_zones.

    The distance is the logarithm less its mean in the band. The parameters x (n,) stand in this
    order: a, b, own (each one a side), f, s, z.

    offset: (P,) logarithm of a known matrix, or 0.
    """

    space: FlowSpace
    offset: Floats
    side_precision: float = SIDE_PRECISION

    @property
    def size(self) -> int:
        """Number of parameters, n."""
        return len(self.precision)

    @property
    def zones(self) -> Indices:
        """(Z,) parameters of pairs of zones, the last ones."""
        return np.arange(self.size - self.space.num_classes("zones"), self.size)

    @cached_property
    def precision(self) -> Floats:
        """(n,) precisions of the priors."""
        sides, zones = self.space.num_sides, self.space.num_classes("zones")
        each = np.full(sides, self.side_precision)
        each[self.space.num_cells :] = SIDE_PRECISION  # a known matrix rarely has these
        rest = np.repeat(
            [OWN_PRECISION, BAND_PRECISION, SLOPE_PRECISION, ZONE_PRECISION],
            [sides, self.space.num_bands, 1, zones],
        )
        return np.concatenate([each, each, rest])

    @cached_property
    def labels(self) -> Indices:
        """(6, P) parameters of each pair: origin, destination, own cell, band, distance, zones."""
        space, sides = self.space, self.space.num_sides
        slope = 3 * sides + space.num_bands
        parameters = (
            space.origin,
            sides + space.destination,
            2 * sides + space.origin,
            3 * sides + space.band,
            np.full(space.num_pairs, slope),
            slope + 1 + space.zone_pair,
        )
        return np.array(parameters)

    @cached_property
    def enters(self) -> Floats:
        """(6, P) by what a parameter enters the logarithm of the pair's share: the distance, 0 for
        that of the own cell where the sides are two, else 1."""
        found = np.ones(self.labels.shape)
        found[2], found[4] = self.space.same, self.space.distance
        return found

    @cached_property
    def incidence(self) -> Any:
        """(P, n) sparse: `enters` by pair and parameter."""
        pairs = np.tile(np.arange(self.labels.shape[1]), len(self.labels))
        entries = (self.enters.ravel(), (pairs, self.labels.ravel()))
        found = sparse.csr_array(entries, shape=(self.labels.shape[1], self.size))
        found.eliminate_zeros()
        return found

    def shares(self, parameters: Floats) -> Floats:
        """(P,) t0 at parameters (n,)."""
        logs = self.offset + self.incidence @ parameters
        powers = np.exp(logs - logs.max())
        return np.asarray(powers / powers.sum())

    def start(self, origins: Floats, destinations: Floats, own: Floats) -> Floats:
        """Parameters (n,) at which sides (K + 2,) have these shares of all people.

        Args:
            origins, destinations: of people who leave a side and who come to it.
            own: of people both of whose sides it is. Without them in the start the climb ends where
                nobody stays without data.
        """
        least = 0.1 / self.space.num_sides
        left, came, stay = (np.maximum(one, least) for one in (origins, destinations, own))
        left, came = left / left.sum(), came / came.sum()
        moving = max(1 - stay.sum(), least)
        stays = np.log(stay / (moving * left * came))
        parameters = np.zeros(self.size)
        parameters[: 3 * self.space.num_sides] = np.concatenate([np.log(left), np.log(came), stays])
        return parameters

    def slope(self, shares: Floats, values: Floats) -> Floats:
        """(n,) derivative of the sum of values (P,) times t0, with respect to the parameters."""
        scaled = shares * values
        return np.asarray(self.incidence.T @ (scaled - scaled.sum() * shares))
