"""Simulated devices: their histories, their responses, and the likelihood of reports.

A history states where a device was in each slot and period, or that it had no data, in two worlds.
In the world `sparse`, there are check-ins: data in 29 % of the slots and periods on average (which
varies between people), half of it away from the usual cell. The app runs in every period. In the
world `rarely`, the app runs only in periods with data, which all slots then have.
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
CELLS = 200  # the number of cells that people can be in
RATE = 1.0, 2.45  # beta law of a person's fraction of periods with data (`sparse`), mean .29
_AWAY = 0.5  # the fraction of data outside the usual cell
_TAIL = 0.8  # the exponent of the cells' shares by rank
_MIN_CHANCE = 1e-300  # the minimum probability before taking a logarithm


@dataclass(frozen=True)
class Lives:
    """The simulated histories of devices."""

    values: Integers  # (n, S, T): the usual cell of each slot and period, or `NONE`
    shares: Floats  # (cells,), the share of people in each cell
    rarely: bool = False  # whether the app runs only in periods with data

    @property
    def present(self) -> NDArray[np.bool_]:
        """Return whether there was data in each slot and period, (n, S, T)."""
        return np.asarray(self.values != NONE)

    @property
    def used(self) -> NDArray[np.bool_]:
        """Return whether there was data in any slot of each period, (n, T)."""
        return np.asarray(self.present.any(axis=1))

    @property
    def next_use(self) -> Integers:
        """Return, for each period, the next period in which the app runs, (n, T); T if none."""
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
        """Return whether, in each slot and period, the last known cell changed or became known."""
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
    """Draw independent people's histories: a cell or `NONE` for each slot and period.

    The module describes `world`. `cells` is the number of cells (for other metrics: values), 1 or
    more.
    """
    shares = np.arange(1.0, cells + 1) ** -_TAIL
    shares /= shares.sum()
    shape = people, slots, periods
    values = np.repeat(rng.choice(cells, size=(people, slots, 1), p=shares), periods, axis=2)
    away = rng.random(shape) < _AWAY
    values[away] = rng.choice(cells, size=int(away.sum()), p=shares)
    apart = 1 if world == "rarely" else slots  # the number of slots with independent data
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
    """Return the log likelihood of counts, by permanent state.

    Args:
        params: The parameters of the metric.
        counts: How often each bit was set, (..., k).
        reports: The number of reports in which they were counted.

    Returns:
        The log likelihood for a bit that is clear and one that is set, (..., k, 2); or for each
        symbol, (..., 1, k).
    """
    _, _, p2, q2 = params.mechanism.rates
    if params.scheme.symbols:
        return np.asarray(counts * ln(p2) + (reports - counts) * ln(q2))[..., None, :]
    by_state = [counts * ln(x) + (reports - counts) * ln(1 - x) for x in (q2, p2)]
    return np.stack(by_state, axis=-1)


def state_chances(params: RapporParams, value: Integers | None = None) -> Floats:
    """Return the prior probabilities of the states of `log_shown`, (k, 2) or (1, k).

    `value` are the bits that the value sets; None for a random value.
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
    """Return the log likelihood that counts (..., k) come from one permanent response: (...)."""
    with np.errstate(divide="ignore"):
        states = log_shown(params, counts, reports) + np.log(state_chances(params, value))
    if params.scheme.symbols:
        return np.asarray(np.logaddexp.reduce(states[..., 0, :], axis=-1))
    return np.asarray(np.logaddexp(states[..., 0], states[..., 1]).sum(axis=-1))


def ln(chance: float) -> float:
    """Return the logarithm of a probability, which is finite even for 0."""
    return float(np.log(max(chance, _MIN_CHANCE)))
