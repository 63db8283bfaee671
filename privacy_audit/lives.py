"""Drawn lives of the devices of a cohort: where each was in each slot and period, or without data.

Two worlds. `sparse`: check-ins, with data in 29 % of the slots and periods on average, more of it
with some people than with others, and half of it away from the usual cell; the app runs in every
period. `rarely`: the same of an app that runs only in periods with data, which all slots then have.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
World = Literal["sparse", "rarely"]

NONE = -1  # no data
CELLS = 200  # that people are in
RATE = 1.0, 2.45  # of a person's periods with data in `sparse`: a beta distribution, mean .29
_AWAY = 0.5  # of those, where it is not the usual cell
_TAIL = 0.8  # exponent of the cells' shares by rank


@dataclass(frozen=True)
class Lives:
    """Simulated lives. values: (n, S, T), the usual cell of each slot and period, or `NONE`.
    shares: (cells,).  rarely: whether the app runs only in periods with data."""

    values: Integers
    shares: Floats
    rarely: bool = False

    @property
    def present(self) -> NDArray[np.bool_]:
        """In which slots and periods there was data, (n, S, T)."""
        return np.asarray(self.values != NONE)

    @property
    def used(self) -> NDArray[np.bool_]:
        """In which periods there was data in any slot, (n, T)."""
        return np.asarray(self.present.any(axis=1))

    @property
    def next_use(self) -> Integers:
        """The first period after each in which the app runs, (n, T); past the end: T."""
        number = self.values.shape[2]
        runs = np.where(self.used | (not self.rarely), np.arange(number), number)
        runs = np.concatenate([runs[:, 1:], np.full((len(runs), 1), number)], axis=1)
        return np.asarray(np.minimum.accumulate(runs[:, ::-1], axis=1)[:, ::-1])

    def held(self, hold: int) -> Integers:
        """Each answer: the last cell, at most `hold` periods old, or `NONE`, (n, S, T)."""
        answers, last = np.full_like(self.values, NONE), np.full_like(self.values[..., 0], NONE)
        age = np.zeros_like(last)
        for period in range(self.values.shape[2]):
            seen, age = self.values[..., period], age + 1
            last, age = np.where(seen != NONE, seen, last), np.where(seen != NONE, 0, age)
            answers[..., period] = np.where(age <= hold, last, NONE)
        return answers

    @property
    def changes(self) -> NDArray[np.bool_]:
        """In which slots and periods the last known cell changed or became known, (n, S, T)."""
        known = self.held(self.values.shape[2])
        before = np.concatenate([np.full_like(known[..., :1], NONE), known[..., :-1]], axis=2)
        return np.asarray(known != before)


def draw_lives(
    world: World,
    people: int,
    slots: int,
    periods: int,
    rng: np.random.Generator,
    cells: int = CELLS,
) -> Lives:
    """Draw the lives of independent people: a cell, or `NONE`, of each slot and period.

    world: as the module describes.
    cells: number of cells (of other metrics: values), 1 or more.
    """
    shares = np.arange(1.0, cells + 1) ** -_TAIL
    shares /= shares.sum()
    shape = people, slots, periods
    values = np.repeat(rng.choice(cells, size=(people, slots, 1), p=shares), periods, axis=2)
    away = rng.random(shape) < _AWAY
    values[away] = rng.choice(cells, size=int(away.sum()), p=shares)
    apart = 1 if world == "rarely" else slots  # that have data in periods of their own
    rate = rng.beta(*RATE, size=(people, apart, 1))
    seen = rng.random((people, apart, periods)) < rate
    return Lives(np.where(seen, values, NONE), shares, world == "rarely")
