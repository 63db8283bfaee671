"""Drawn lives of the devices of a cohort: where each was in each slot and period, or without data.

Two worlds. `sparse`: check-ins, with data in 29 % of the slots and periods on average, more of it
with some people than with others, and half of it away from the usual cell. `dense`: data in 95 %,
always in the usual cell, and one person in five moves once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
World = Literal["sparse", "dense"]
WORLDS: tuple[World, ...] = ("sparse", "dense")

NONE = -1  # no data
CELLS = 200  # that people are in
_RATE = 1.0, 2.45  # of a person's periods with data in `sparse`: a beta distribution, mean .29
_AWAY = 0.5  # of those, where it is not the usual cell
_SEEN, _MOVES = 0.95, 0.2  # of `dense`
_TAIL = 0.8  # exponent of the cells' shares by rank


@dataclass(frozen=True)
class Lives:
    """Simulated lives. values: (n, S, T), the usual cell of each slot and period, or `NONE`.
    shares: (cells,)."""

    values: Integers
    shares: Floats

    @property
    def present(self) -> NDArray[np.bool_]:
        """In which slots and periods there was data, (n, S, T)."""
        return np.asarray(self.values != NONE)

    def held(self, hold: int, block: int = 0) -> Integers:
        """The answer in each slot and period: the last known cell, at most `hold` periods old,
        or `NONE`, (n, S, T).

        block: periods after which nothing is known of those before; 0: there are none.
        """
        answers, last = np.full_like(self.values, NONE), np.full_like(self.values[..., 0], NONE)
        age = np.zeros_like(last)
        for period in range(self.values.shape[2]):
            if block and period % block == 0:
                last[:] = NONE
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

    world: "dense", people with a usual cell, data in most periods, and one move at most; else
    "sparse", data in some 29 % of the periods, half of them away from the usual cell.
    cells: number of cells (of other metrics: values), 1 or more.
    """
    shares = np.arange(1.0, cells + 1) ** -_TAIL
    shares /= shares.sum()
    shape = people, slots, periods
    values = np.repeat(rng.choice(cells, size=(people, slots, 1), p=shares), periods, axis=2)
    if world == "dense":
        move = np.where(rng.random((people, 1)) < _MOVES, rng.integers(1, periods, (people, 1)),
                        periods)  # fmt: skip
        new = rng.choice(cells, size=(people, slots, 1), p=shares)
        gone = np.arange(periods)[None, None] >= move[:, :, None]
        values = np.where(gone, new, values)
        seen = rng.random(shape) < _SEEN
    else:
        away = rng.random(shape) < _AWAY
        values[away] = rng.choice(cells, size=int(away.sum()), p=shares)
        seen = rng.random(shape) < rng.beta(*_RATE, size=(people, slots, 1))
    return Lives(np.where(seen, values, NONE), shares)
