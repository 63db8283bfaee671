"""Test whether the candidates' bits look randomly hashed, by how many bits pairs of candidates
share."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats

MOST_COMPARED = 256  # candidates, drawn by a fixed seed; of shorter lists all
LARGEST_CHANCE_ERRORS = 6.0  # standard errors of the ratio
LARGEST_RATIO = 1.2


class Alike(NamedTuple):
    """The finding that candidates share bits more unevenly than random hashing makes them.

    ratio: mean squared deviation of the overlap of two candidates over that of random hashing.
    first, second: of the pair that shares most.  shared: bits of it.  expected: of a random pair.
    """

    ratio: float
    first: int
    second: int
    shared: int
    expected: float


def alike_candidates(positions: Positions, random: RandomString) -> Alike | None:
    """Test whether a list's bits are hashed at random; None where nothing contradicts it.

    The overlap of two candidates is the number of bits, over all cohorts, that both set. Its mean
    squared deviation over all pairs, in units of its variance under random hashing, is 1 with a
    standard error of sqrt((2 + 1 / mean) / pairs). It grows where all use the same few bits, and
    where some have nearly the same.

    Args:
        positions: of candidates that differ in some bit, (G, m, h).
        random: the law of the bits of a string.
    """
    size = len(positions)
    chosen = np.arange(size)
    if size > MOST_COMPARED:
        chosen = np.random.default_rng(0).choice(size, MOST_COMPARED, replace=False)
    first, second = np.triu_indices(len(chosen), 1)
    if not len(first):
        return None
    shared = _overlaps(positions[chosen], random.num_bits)[first, second]
    cohorts, k = positions.shape[1], random.num_bits
    expected = cohorts * k * random.mean**2
    both = random.covariance_matrix + random.mean**2
    variance = cohorts * float((both**2).sum() - k**2 * random.mean**4)
    ratio = float(((shared - expected) ** 2).mean()) / variance
    error = math.sqrt((2 + 1 / expected) / len(shared))
    if ratio <= LARGEST_RATIO + LARGEST_CHANCE_ERRORS * error:
        return None
    most = int(np.argmax(shared))
    one, other = sorted((int(chosen[first[most]]), int(chosen[second[most]])))
    return Alike(ratio, one, other, int(shared[most]), expected)


def _overlaps(positions: Positions, num_bits: int) -> Floats:
    """Bits that each two of some candidates share, (S, S)."""
    places = np.sort(positions.astype(np.int64), axis=2)
    unset = places >= num_bits
    unset[:, :, 1:] |= places[:, :, 1:] == places[:, :, :-1]
    own, other = np.where(unset, -1, places), np.where(unset, -2, places)
    shared = np.zeros((len(places), len(places)))
    for cohort in range(places.shape[1]):
        for one in own[:, cohort].T:
            for two in other[:, cohort].T:
                shared += one[:, None] == two[None, :]
    return shared
