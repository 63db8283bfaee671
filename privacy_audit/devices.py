"""Simulated devices: their lives, their responses, and how well one response explains reports.

A life says where a device was in each slot and period, or that it had no data, in two worlds.
`sparse`: check-ins, with data in 29 % of the slots and periods on average, more of it with some
people than with others, and half of it away from the usual cell; the app runs in every period.
`rarely`: the same of an app that runs only in periods with data, which all slots then have.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rappor_core.params import RapporParams

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
World = Literal["sparse", "rarely"]

NONE = -1  # no data
CELLS = 200  # that people are in
RATE = 1.0, 2.45  # of a person's periods with data in `sparse`: a beta distribution, mean .29
_AWAY = 0.5  # of those, where it is not the usual cell
_TAIL = 0.8  # exponent of the cells' shares by rank
_MIN_CHANCE = 1e-300  # of a chance whose logarithm is taken


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

    def answers(self, hold: int) -> Integers:
        """Return each answer, (n, S, T): the last cell, at most `hold` periods old, or `NONE`."""
        answers, last = np.full_like(self.values, NONE), np.full_like(self.values[..., 0], NONE)
        age = np.zeros_like(last)
        for period in range(self.values.shape[2]):
            now, age = self.values[..., period], age + 1
            last, age = np.where(now != NONE, now, last), np.where(now != NONE, 0, age)
            answers[..., period] = np.where(age <= hold, last, NONE)
        return answers

    @property
    def changes(self) -> NDArray[np.bool_]:
        """In which slots and periods the last known cell changed or became known, (n, S, T)."""
        last = self.answers(self.values.shape[2])
        before = np.concatenate([np.full_like(last[..., :1], NONE), last[..., :-1]], axis=2)
        return np.asarray(last != before)


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
    apart = 1 if world == "rarely" else slots  # that have data in separate periods
    rate = rng.beta(*RATE, size=(people, apart, 1))
    has_data = rng.random((people, apart, periods)) < rate
    return Lives(np.where(has_data, values, NONE), shares, world == "rarely")


def draw_permanent(bits: Integers, params: RapporParams, rng: np.random.Generator) -> Integers:
    """Draw the permanent responses of devices, (n, k), whose values set the given bits, (h, n)."""
    keep, lie, _, _ = params.mechanism.rates
    n, k = bits.shape[1], params.num_bits
    rows = np.arange(n)
    if params.scheme.symbols:
        drawn = np.zeros((n, k), dtype=np.int64)
        shift = np.where(rng.random(n) < keep, 0, rng.integers(1, k, size=n))
        drawn[rows, (bits[0] + shift) % k] = 1
        return drawn
    chance = np.full((n, k), lie)
    chance[rows, bits] = keep
    return (rng.random((n, k)) < chance).astype(np.int64)


def draw_shown(
    permanent: Integers, reports: int, params: RapporParams, rng: np.random.Generator
) -> Integers:
    """Draw how often each bit is set in reports with these permanent bits, (n, k)."""
    _, _, show, hide = params.mechanism.rates
    if params.scheme.symbols:
        chances = np.where(permanent == 1, 1 - (params.num_bits - 1) * hide, hide)
        return np.asarray(rng.multinomial(reports, chances))
    return np.asarray(rng.binomial(reports, np.where(permanent == 1, show, hide)))


def log_shown(params: RapporParams, counts: Integers | Floats, reports: int) -> Floats:
    """Log likelihood of counts, by permanent state.

    Args:
        params: Of the metric.
        counts: How often each bit was set, (..., k).
        reports: In which they were counted.

    Returns:
        Of a bit that is clear and one that is set, (..., k, 2); or of each symbol, (..., 1, k).
    """
    _, _, p2, q2 = params.mechanism.rates
    if params.scheme.symbols:
        return np.asarray(counts * ln(p2) + (reports - counts) * ln(q2))[..., None, :]
    by_state = [counts * ln(x) + (reports - counts) * ln(1 - x) for x in (q2, p2)]
    return np.stack(by_state, axis=-1)


def state_chances(params: RapporParams, value: Integers | None = None) -> Floats:
    """Chances of the states of `log_shown`, (k, 2) or (1, k).

    value: the bits that it sets; None for a random value.
    """
    (p1, q1, _, _), k = params.mechanism.rates, params.num_bits
    if params.scheme.symbols:
        chances = np.full((1, k), 1 / k if value is None else (1 - p1) / (k - 1))
        if value is not None:
            chances[0, value[0]] = p1
        return chances
    ones = 1 - (1 - 1 / k) ** params.num_hashes  # P(B = 1), of random values
    chance = np.full(k, p1 * ones + q1 * (1 - ones) if value is None else q1)
    if value is not None:
        chance[value] = p1
    return np.stack([1 - chance, chance], axis=-1)


def log_evidence(
    params: RapporParams, counts: Integers | Floats, reports: int, value: Integers | None = None
) -> Floats:
    """Log likelihood of counts (..., k) that share one permanent response of a value, (...)."""
    with np.errstate(divide="ignore"):
        states = log_shown(params, counts, reports) + np.log(state_chances(params, value))
    if params.scheme.symbols:
        return np.asarray(np.logaddexp.reduce(states[..., 0, :], axis=-1))
    return np.asarray(np.logaddexp(states[..., 0], states[..., 1]).sum(axis=-1))


def ln(chance: float) -> float:
    """Return the logarithm of a chance, finite for 0."""
    return float(np.log(max(chance, _MIN_CHANCE)))
