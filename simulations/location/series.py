"""Maps of a simulated series of months: each window alone, all as one map, or pooled as a
series.

The share of `other` moves from .2 to .95. Then the delay: 5 % of the devices are in a cell that was
empty, from some window on, and the series is mapped as it stands 1, 2, 3 and 5 windows after.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from decoder.density.cells import Places
from decoder.density.gaussian_field import fit_field
from decoder.density.map_series import WindowMap, map_windows
from decoder.density.slots import slot_readings
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from simulations.location.draws import capped, draw_memo, draw_window

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OTHERS = (0.2, 0.95)
DELAYS = (1, 2, 3, 5)
_NEW_CROWD = 0.05
_FIRST_DAY = date(2024, 1, 31)


@dataclass(frozen=True)
class SeriesResult:
    """The errors of one way to map a series: total variation distances over the cells, by
    window.

    alone, whole, pooled: means over the windows of the map of the window by itself, of the map of
    all, of the pooled ones; worst: of each, (alone, whole, pooled).  over_alone, over_whole: the
    most by which a pooled window is worse.  shown: what the map shows of a new crowd, of its size,
    after 1, 2, 3 and 5 windows.  found: whether it is told from no change, for each of these.
    seconds: to map all windows.
    """

    way: str
    alone: float
    whole: float
    pooled: float
    worst: tuple[float, float, float]
    over_alone: float
    over_whole: float
    shown: tuple[float, ...]
    found: tuple[bool, ...]
    seconds: float


def one_series(
    name: str, metric: Metric, places: Places, values: Integers, rng: np.random.Generator
) -> SeriesResult:
    """Draw a series of windows and map it in all ways. values: (people, T), indices into the
    places' finest level."""
    size, number = len(places.finest), values.shape[1]
    outside = rng.random(values.shape) < np.linspace(*OTHERS, number)
    moved = np.where(outside, size - 1, values)
    windows = draw_windows(metric, places, moved, rng)
    true = true_shares(moved, size)
    start = time.process_time()
    pooled = [one.shares for one in map_windows(windows, places, None, None)]
    seconds = time.process_time() - start
    alone = [map_windows([window], places, None, None)[0].shares for window in windows]
    whole = whole_map(windows, places)
    kinds = (alone, [whole] * number, pooled)
    off = [
        np.array([cell_distance(p, t) for p, t in zip(kind, true, strict=True)]) for kind in kinds
    ]
    means, worst = [float(one.mean()) for one in off], [float(one.max()) for one in off]
    shown, found = _delay(metric, places, values, rng)
    return SeriesResult(
        name,
        means[0],
        means[1],
        means[2],
        (worst[0], worst[1], worst[2]),
        float((off[2] - off[0]).max()),
        float((off[2] - off[1]).max()),
        shown,
        found,
        seconds,
    )


def draw_windows(
    metric: Metric, places: Places, values: Integers, rng: np.random.Generator
) -> list[list[Aggregate]]:
    """Draw the aggregates of each window; in mode `window` everybody answers once in each."""
    assert metric.location is not None  # noqa: S101 (of a way)
    names, params = list(places.finest), metric.params
    if metric.location.mode == "memo":
        if not params.scheme.symbols:
            values = capped(values, metric.max_memoized_values, len(names) - 1)
        counts = draw_memo(values, names, params, rng)
    else:
        counts = draw_window(values, names, params, 1, rng)
    days = [_FIRST_DAY + timedelta(days=31 * index) for index in range(values.shape[1])]
    return [
        [counts.aggregate(metric, slice(index, index + 1), day, day)]
        for index, day in enumerate(days)
    ]


def true_shares(values: Integers, size: int) -> Floats:
    """Shares (T, size) of the values (people, T)."""
    return np.stack([np.bincount(one, minlength=size) / len(one) for one in values.T])


def cell_distance(one: Floats, other: Floats) -> float:
    """Total variation between two maps over their cells, without the last value, `other`."""
    cells = [shares[:-1] / max(float(shares[:-1].sum()), 1e-12) for shares in (one, other)]
    return float(np.abs(cells[0] - cells[1]).sum() / 2)


def whole_map(windows: Sequence[Sequence[Aggregate]], places: Places) -> Floats:
    """The map (n,) of all windows together."""
    merged = windows[0][0]
    for window in windows[1:]:
        merged = merged.merge(window[0])
    readings = slot_readings([merged], places, None)
    return fit_field(readings, places.laplacian, reserved=1).shares


def _delay(
    metric: Metric, places: Places, values: Integers, rng: np.random.Generator
) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """What is shown of a new crowd from a window on, and whether it is told, as windows pass."""
    size, number = len(places.finest), values.shape[1]
    first = max(2, number - max(DELAYS))
    cell = int(np.argmin(np.bincount(values.ravel(), minlength=size)[:-1]))
    settled = np.where(rng.random(values.shape) < OTHERS[0], size - 1, values)
    settled[rng.random(len(settled)) < _NEW_CROWD, first:] = cell
    windows, true = draw_windows(metric, places, settled, rng), true_shares(settled, size)
    shown, found = [], []
    for delay in DELAYS:
        last = min(first + delay, number)
        maps: list[WindowMap] = map_windows(windows[:last], places, None, None)
        shown.append(float(maps[-1].shares[cell] / true[last - 1, cell]))
        changes = maps[-1].changes
        found.append(changes is not None and bool(changes.detected[cell]))
    return tuple(shown), tuple(found)
