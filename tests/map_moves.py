"""Worlds in which people of a city move together from a week on, and what their maps show of it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decoder.density.cells import places_of
from decoder.density.map_series import WindowMap, window_maps
from decoder.numerics.bit_tensor import one_thread
from metric_design.map_forecast import SECOND_DIAL
from rappor_core.metrics.metric import Metric
from tests.map_draws import capped, cell_distance, draw_windows, square_metric, true_shares

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
World = Literal["district", "festival", "drift", "none"]

WEEKS, STEP = 6, 3
TOP = 20  # of the most changed cells
STRONG = 3.0  # standard errors
ALPHA = 0.05  # chance that a series has any false change
OTHER = 0.1  # share of the answers of a week
_AWAY, _DISTRICT = 0.2, 0.23  # the second: of the side of the city
_REACH, _ROUGH, _SLOPE = 0.35, 1.0, 0.8
_Z95 = 1.959964
_MEMO = 'mode = "memo"\nepsilon_infinity = {each}\nepsilon_one = {one}\n'
MODES = {
    "window": 'mode = "window"\nwindow = 6\nmax_reports = 1\nepsilon = {budget}\nnum_bits = 32\n',
    "2 symbols": _MEMO + 'encoding = "symbol"\nnum_symbols = 2\n',
    "L-OSUE, cap 2": _MEMO + 'mechanism = "l-osue"\nmax_memoized_values = 2\nnum_bits = 32\n',
}


@dataclass(frozen=True)
class Setting:
    """A simulated world. side: cells of a side. moved: share of people who move. budget: epsilon
    of a week in mode `window`, for life in the others."""

    mode: str
    side: int
    devices: int
    world: World
    moved: float
    budget: float = 4.0

    def metric(self) -> Metric:
        each = self.budget / 2
        keys = MODES[self.mode].format(budget=self.budget, each=each, one=SECOND_DIAL * each)
        return square_metric(self.side, 'period = "week"\nnum_cohorts = 64\n' + keys)


@dataclass(frozen=True)
class Found:
    """What the maps of one drawn series show of its changes.

    covered, covered_all: part of the 20 most changed cells and of all whose interval of 95 % holds
    the change in the last week, or the festival's.  detected, wrong: cells and weeks with a change,
    and with one of the wrong sign.  strong, right: cells that differ by three standard errors, and
    those of them that are detected.  distance: total variation, mean of the weeks.
    """

    covered: float
    covered_all: float
    detected: int
    wrong: int
    strong: int
    right: int
    event: bool
    distance: float
    seconds: float


def draw_moves(setting: Setting, rng: np.random.Generator) -> Integers:
    """Draw each person's cell, or `other`, in each week: (devices, 6), indices."""
    side, devices = setting.side, setting.devices
    shares = city(side, rng)
    values, there = draw_homes(side, devices, WEEKS, shares, rng)
    moved = rng.random(devices) < setting.moved
    begins = rng.integers(1, WEEKS, size=devices)
    for week in range(WEEKS):
        if setting.world == "district" and week >= STEP:
            values[moved, week] = there[moved]
        elif setting.world == "drift":
            gone = moved & (begins <= week)
            values[gone, week] = there[gone]
        elif setting.world == "festival" and week == STEP:
            values[moved, week] = int(np.argmin(shares))
    values[rng.random(values.shape) < OTHER] = side * side
    return values


def draw_homes(
    side: int, devices: int, weeks: int, shares: Floats, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Cells of the people in each week, a fifth of them away from home: (devices, weeks).

    Also a cell of each of one district, (devices,), which is nearly a quarter as wide as the city.
    """
    size = side * side
    values = np.repeat(rng.choice(size, devices, p=shares)[:, None], weeks, axis=1)
    away = rng.random(values.shape) < _AWAY
    values[away] = rng.choice(size, int(away.sum()), p=shares)
    width = max(2, round(side * _DISTRICT))
    row, column = rng.integers(side - width + 1, size=2)
    where = rng.choice(width * width, devices)
    return values, (row + where // width) * side + column + where % width


def one_series(setting: Setting, rng: np.random.Generator) -> Found:
    metric = setting.metric()
    assert metric.location is not None
    places, values = places_of([metric.location]), draw_moves(setting, rng)
    size = setting.side**2
    if metric.location.mode == "memo" and not metric.params.scheme.symbols:
        values = capped(values, metric.max_memoized_values, size)  # what is sent is judged
    windows, true = draw_windows(metric, places, values, rng), true_shares(values, size + 1)
    start = time.process_time()
    with one_thread():
        maps = list(window_maps(windows, places, None))
    seconds = time.process_time() - start
    cells = true[:, :-1] / true[:, :-1].sum(axis=1, keepdims=True)
    change = cells - (cells.sum(axis=0) - cells) / (WEEKS - 1)
    return _judged(setting, maps, change, true, seconds)


def _judged(
    setting: Setting, maps: Sequence[WindowMap], change: Floats, true: Floats, seconds: float
) -> Found:
    """change: true, (6, n).  true: shares, (6, n + 1)."""
    parts = [one.changes for one in maps if one.changes is not None]
    found, errors = (np.stack([one.from_others[i] for one in parts]) for i in (0, 1))
    detected = np.stack([one.p_adjusted <= ALPHA for one in parts])
    week = STEP if setting.world == "festival" else WEEKS - 1
    inside = np.abs(found - change)[week] < _Z95 * errors[week]
    top = np.argsort(-np.abs(change[week]))[:TOP]
    right_sign = detected & (np.sign(found) == np.sign(change))
    strong = (np.abs(change) > STRONG * errors).any(axis=0)
    return Found(
        covered=float(inside[top].mean()),
        covered_all=float(inside.mean()),
        detected=int(detected.sum()),
        wrong=int((detected & ~right_sign).sum()),
        strong=int(strong.sum()),
        right=int((strong & right_sign.any(axis=0)).sum()),
        event=bool(detected[week, top[0]]),
        distance=float(
            np.mean([cell_distance(m.shares, t) for m, t in zip(maps, true, strict=True)])
        ),
        seconds=seconds,
    )


def city(side: int, rng: np.random.Generator) -> Floats:
    """Shares (side^2,) of a city whose neighboring cells are alike."""
    one = np.linspace(-1.7, 1.7, side)
    where = np.array([(x, y) for x in one for y in one])
    apart = ((where[:, None] - where) ** 2).sum(axis=2)
    alike = np.exp(-apart / (2 * _REACH**2)) + 1e-6 * np.eye(len(where))
    field = _ROUGH * np.linalg.cholesky(alike) @ rng.standard_normal(len(where))
    weights = np.exp(field - _SLOPE * (where**2).sum(axis=1))
    return np.asarray(weights / weights.sum())
