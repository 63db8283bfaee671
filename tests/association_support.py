"""Linked reports of devices that hold a pair each, drawn bit by bit."""

from __future__ import annotations

import numpy as np

from decoder.association.linked import LinkedReports, Side
from decoder.model.noise import BitNoise
from decoder.typing import Floats
from rappor_core.mechanism import TwoRoundMechanism


def one_hot_side(name: str, count: int, f: float, p: float, q: float, cohorts: int = 1) -> Side:
    """A metric with a bit for each value."""
    noise = BitNoise.of(TwoRoundMechanism.rappor(f, p, q))
    designs = np.broadcast_to(np.eye(count), (cohorts, count, count)).copy()
    return Side(name, tuple(f"{name}{i}" for i in range(count)), designs, noise)


def hashed_side(name: str, count: int, bits: int, cohorts: int, seed: int, f: float = 0.0) -> Side:
    """A metric in a Bloom filter of two hashes."""
    rng = np.random.default_rng(seed)
    designs = np.zeros((cohorts, bits, count))
    for cohort in range(cohorts):
        for value in range(count):
            designs[cohort, rng.integers(bits, size=2), value] = 1
    noise = BitNoise.of(TwoRoundMechanism.rappor(f, 0.25, 0.75))
    return Side(name, tuple(f"{name}{i}" for i in range(count)), designs, noise)


def drawn_reports(
    shares: Floats, count: int, first: Side, second: Side, rng: np.random.Generator
) -> LinkedReports:
    """One report of each of `count` devices."""
    cells = rng.choice(shares.size, size=count, p=shares.ravel())
    values = np.divmod(cells, shares.shape[1])
    cohorts = rng.integers(len(first.designs), size=count)
    bits = []
    for side, held in zip((first, second), values, strict=True):
        chance = side.noise.p_star + side.noise.gap * side.designs[cohorts, :, held]
        bits.append((rng.random(chance.shape) < chance).astype(np.uint8))
    return LinkedReports(cohorts, bits[0], bits[1])
