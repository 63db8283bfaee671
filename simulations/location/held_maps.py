"""Maps of a year by mode, where people move or are not always seen: how far off is each?

A city of square cells. `moves`: everybody is seen in each of twelve months, and 20 % move once.
`months`: check-ins; data in 78 % of twelve months, at one of three own cells. `weeks`: the same in
25 % of 48 weeks, mapped by four weeks. Off is a map from the shares of those *seen* in its month.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import partial
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from decoder.density.cells import places_of
from decoder.density.map_series import map_windows
from decoder.density.modes import BITS, HOLD, SECOND_DIAL
from decoder.numerics.threads import one_thread
from privacy_audit.lives import NONE, Lives
from rappor_core.metrics.metric import Metric
from simulations.location.draws import draw_memo, draw_window
from simulations.location.moves import city, repeated
from simulations.location.series import cell_distance
from simulations.location.square_metrics import COHORTS, square_metric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
World = Literal["moves", "months", "weeks"]
Mode = Literal["window", "window, no hold", "once", "memo, hold", "memo, no hold"]
WORLDS: tuple[World, ...] = get_args(World)
MODES: tuple[Mode, ...] = get_args(Mode)

MONTHS, WEEKS_A_MONTH = 12, 4
_MOVES = 0.2
_SEEN = {"months": (3.1, 0.9), "weeks": (1.0, 3.0)}  # of a person's periods: beta distributions
_OWN = 0.6, 0.3, 0.1  # shares of a person's three cells
_FIRST_DAY = date(2026, 1, 31)


@dataclass(frozen=True)
class Setting:
    """A setting of the experiment. side: cells of a side. epsilon: for life, of one slot."""

    world: World
    mode: Mode
    side: int
    devices: int
    epsilon: float

    @property
    def periods(self) -> int:
        """Number of periods in the simulated year."""
        return MONTHS * (WEEKS_A_MONTH if self.world == "weeks" else 1)

    @property
    def hold(self) -> int:
        """The metric's `hold`, in periods."""
        return HOLD if self.mode in ("window", "memo, hold") else 0

    def metric(self) -> Metric:
        """The location metric of this setting."""
        held = f"hold = {self.hold}\n" if self.hold else ""
        period = f'period = "{"week" if self.world == "weeks" else "month"}"\n'
        keys = f"{period}num_cohorts = {COHORTS}\n"
        if self.mode.startswith("memo"):
            each = self.epsilon / 2
            keys += f'mode = "memo"\n{held}encoding = "symbol"\nnum_symbols = 2\n'
            keys += f"epsilon_infinity = {each}\nepsilon_one = {SECOND_DIAL * each}\n"
        elif self.mode == "once":
            keys += f'mode = "once"\nnum_bits = {BITS}\nepsilon = {self.epsilon}\n'
        else:
            keys += f'mode = "window"\nwindow = {self.periods}\nturn = "fresh"\n{held}'
            keys += f"max_reports = 1\nnum_bits = {BITS}\nepsilon = {self.epsilon}\n"
        return square_metric(self.side, keys)


@dataclass(frozen=True)
class Found:
    """The errors of the maps of one simulated year: total variation over cells, means of the
    months.

    off: of the maps from the shares of those seen.  held: of what devices would answer without
    noise.  even: of an even map.  other: share of the answers.  flat: months whose map is nearer to
    the even one than a tenth of `even`.  seconds: of processor time.
    """

    off: float
    held: float
    even: float
    other: float
    flat: int
    seconds: float


def draw_year(setting: Setting, rng: np.random.Generator) -> Lives:
    """The usual cell of each person and period, or `NONE`: (devices, 1, periods)."""
    shares, people = city(setting.side, rng), setting.devices
    size, periods = len(shares), setting.periods
    if setting.world == "moves":
        values = np.repeat(rng.choice(size, (people, 1), p=shares), periods, axis=1)
        gone = np.arange(periods) >= rng.integers(1, periods, (people, 1))
        gone &= rng.random((people, 1)) < _MOVES
        values = np.where(gone, rng.choice(size, (people, 1), p=shares), values)
    else:
        own = rng.choice(size, (people, len(_OWN)), p=shares)
        values = np.take_along_axis(own, rng.choice(len(_OWN), (people, periods), p=_OWN), axis=1)
        seen = rng.random(values.shape) < rng.beta(*_SEEN[setting.world], (people, 1))
        values = np.where(seen, values, NONE)
    return Lives(values[:, None], shares)


def one_year(setting: Setting, rng: np.random.Generator) -> Found:
    """Draw and map one year."""
    metric = setting.metric()
    assert metric.location is not None  # noqa: S101 (`square_metric`)
    places, lives = places_of([metric.location]), draw_year(setting, rng)
    size, span = setting.side**2, setting.periods // MONTHS
    answers = lives.held(setting.hold)[:, 0]
    sent = np.where(answers == NONE, size, answers)
    true, held = (_shares(one, size, span) for one in (lives.values[:, 0], answers))
    names = list(places.finest)
    if setting.mode.startswith("memo"):
        counts = draw_memo(sent, names, metric.params, rng)
    elif setting.mode == "once":
        counts = draw_window(sent[:, :1], names, metric.params, 1, rng)
    else:
        counts = draw_window(sent, names, metric.params, setting.periods, rng)
    number = 1 if setting.mode == "once" else MONTHS
    days = [_FIRST_DAY + timedelta(days=30 * month) for month in range(number)]
    windows = [
        [counts.aggregate(metric, slice(month * span, (month + 1) * span), day, day)]
        for month, day in enumerate(days)
    ]
    start = time.process_time()
    with one_thread():
        maps = [one.shares for one in map_windows(windows, places, None, None)]
    seconds = time.process_time() - start
    maps *= MONTHS // number
    even = np.append(np.full(size, 1 / size), 0.0)
    far = [cell_distance(even, one) for one in true]
    flat = [cell_distance(even, one) < 0.1 * float(np.mean(far)) for one in maps]
    return Found(
        off=_mean(maps, true),
        held=_mean(held, true),
        even=float(np.mean(far)),
        other=float((answers == NONE).mean()),
        flat=sum(flat),
        seconds=seconds,
    )


def years(
    settings: Sequence[Setting],
    draws: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """For each setting, the mean error of maps over simulated years, with the least and the
    largest."""
    rows = []
    for setting, several in repeated(settings, draws, partial(one_year, rng=rng), advance):
        found = list(map(asdict, several))
        means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        spread = {
            "least": min(one["off"] for one in found),
            "most": max(one["off"] for one in found),
        }
        rows.append(asdict(setting) | {"cells": setting.side**2, "draws": draws} | means | spread)
    return rows


def settings_of(
    worlds: Sequence[World],
    modes: Sequence[Mode],
    sides: Sequence[int],
    epsilons: Sequence[float],
    devices: int,
) -> list[Setting]:
    """All combinations of the options, without those where `hold` cannot matter."""
    return [
        Setting(world, mode, side, devices, epsilon)
        for world, side, epsilon, mode in product(worlds, sides, epsilons, modes)
        if world != "moves" or mode in ("window", "once", "memo, hold")
    ]


def _shares(values: Integers, size: int, span: int) -> list[Floats]:
    """Shares over cells and `other`, which is nobody's, of each month's people with a value."""
    found = []
    for month in range(MONTHS):
        part = values[:, month * span : (month + 1) * span]
        counts = np.bincount(part[part != NONE], minlength=size).astype(np.float64)
        found.append(np.append(counts / counts.sum(), 0.0))
    return found


def _mean(maps: Sequence[Floats], true: Sequence[Floats]) -> float:
    """Total variation over the cells, mean of the months."""
    return float(np.mean([cell_distance(a, b) for a, b in zip(maps, true, strict=True)]))
