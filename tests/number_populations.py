"""Populations of numbers by formulas, and the edges that each is asked at."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from decoder.typing import Floats
from rappor_core.metrics.number import made_edges

Draw = Callable[[np.random.Generator, int], Floats]


@dataclass(frozen=True)
class Population:
    """A population. scale, first, last, bins: of the edges. draw: numbers of some devices."""

    name: str
    scale: str
    first: float
    last: float
    bins: int
    whole: bool
    draw: Draw

    @property
    def edges(self) -> tuple[float, ...]:
        """The metric's edges as declared; 1, 2, ... for whole numbers."""
        return made_edges(self.scale, self.first, self.last, self.bins)


def _lognormal(rng: np.random.Generator, size: int) -> Floats:
    numbers: Floats = 60 * np.exp(1.2 * rng.standard_normal(size))
    return numbers


def _zipf(rng: np.random.Generator, size: int) -> Floats:
    numbers = np.minimum(rng.zipf(1.8, size), 10_000).astype(np.float64)
    return np.where(rng.random(size) < 0.4, 0.0, numbers)


def _geometric(rng: np.random.Generator, size: int) -> Floats:
    numbers = rng.geometric(1 / 12, size).astype(np.float64)
    return np.where(rng.random(size) < 0.3, 0.0, numbers)


def _bimodal(rng: np.random.Generator, size: int) -> Floats:
    first = rng.random(size) < 0.6
    return np.clip(np.where(first, rng.normal(25, 6, size), rng.normal(70, 9, size)), 0, None)


def _ages(rng: np.random.Generator, size: int) -> Floats:
    return np.floor(17 + rng.gamma(2.6, 8.2, size))


def _hours(rng: np.random.Generator, size: int) -> Floats:
    others = np.clip(np.round(rng.normal(41, 14, size)), 1, 99)
    return np.where(rng.random(size) < 0.45, 40.0, others)


def _trips(rng: np.random.Generator, size: int) -> Floats:
    numbers: Floats = 60 + 660 * np.exp(rng.standard_normal(size))
    return numbers


POPULATIONS = (
    Population("lognormal", "log", 1, 3_600, 32, False, _lognormal),
    Population("zipf0", "log", 1, 1_000, 24, True, _zipf),
    Population("geom0", "linear", 0, 40, 40, True, _geometric),
    Population("bimodal", "linear", 0, 100, 32, False, _bimodal),
    Population("ages", "linear", 15, 90, 30, False, _ages),
    Population("hours", "linear", 0.5, 98.5, 28, False, _hours),
    Population("trips", "log", 60, 36_000, 32, False, _trips),
)
TRUTH_SIZE = 1_000_000


def shares_at_or_above(population: Population, cuts: Floats) -> Floats:
    """P(X >= cut), of a million numbers: to within 0.001, less than what is measured. (K,)."""
    numbers = _many(population)
    shares: Floats = 1 - np.searchsorted(numbers, cuts, side="left") / len(numbers)
    return shares


@lru_cache(maxsize=len(POPULATIONS))
def _many(population: Population) -> Floats:
    return np.sort(population.draw(np.random.default_rng(0), TRUTH_SIZE))
