"""Draw linked reports of devices that hold a pair of values, bit by bit."""

from __future__ import annotations

import numpy as np

from decoder.association.linked import LinkedReports, Side
from decoder.model.noise import BitNoise
from decoder.typing import Floats
from rappor_core.mechanism import TwoRoundMechanism

AT_ONCE = 100_000  # reports


def one_hot_side(name: str, count: int, f: float, p: float, q: float, cohorts: int = 1) -> Side:
    """One side of a pair: a metric of `count` values, each with a bit of its own.

    name: of the metric; its values are this name with 0, 1, ... behind it.
    """
    noise = BitNoise.of(TwoRoundMechanism.rappor(f, p, q))
    designs = np.broadcast_to(np.eye(count), (cohorts, count, count)).copy()
    return Side(name, tuple(f"{name}{i}" for i in range(count)), designs, noise)


def hashed_side(
    name: str, count: int, bits: int, cohorts: int, seed: int, f: float = 0.0, p: float = 0.25
) -> Side:
    """A metric in a Bloom filter of two hashes, q = .75."""
    rng = np.random.default_rng(seed)
    designs = np.zeros((cohorts, bits, count))
    for cohort in range(cohorts):
        for value in range(count):
            designs[cohort, rng.integers(bits, size=2), value] = 1
    noise = BitNoise.of(TwoRoundMechanism.rappor(f, p, 0.75))
    return Side(name, tuple(f"{name}{i}" for i in range(count)), designs, noise)


def drawn_reports(
    shares: Floats, count: int, first: Side, second: Side, rng: np.random.Generator
) -> LinkedReports:
    """Draw one linked report of each of `count` devices."""
    cells = rng.choice(shares.size, size=count, p=shares.ravel())
    values = np.divmod(cells, shares.shape[1])
    cohorts = rng.integers(len(first.designs), size=count)
    bits = []
    for side, held in zip((first, second), values, strict=True):
        drawn = np.empty((count, side.designs.shape[1]), dtype=np.uint8)
        for start in range(0, count, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            set_bits = side.designs[cohorts[part], :, held[part]]
            drawn[part] = rng.random(set_bits.shape) < side.noise.p_star + side.noise.gap * set_bits
        bits.append(drawn)
    return LinkedReports(cohorts, bits[0], bits[1])
