"""Windows of places on square grids drawn as counts, their true maps, and the map of all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from decoder.density.cells import Places
from decoder.density.gaussian_field import fit_field
from decoder.density.slots import slot_readings
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from simulations.location.draws import capped, draw_memo, draw_window

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_FIRST_DAY = date(2024, 1, 31)
_SQUARE = """
[metrics.places]
kind = "location"
description = "The usual place"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [0, 0, 8, 8]
rows = {side}
columns = {side}
levels = [0]
"""


def square_metric(side: int, keys: str) -> Metric:
    """A location metric of side * side cells; `keys`: further keys of its declaration."""
    (metric,) = parse_metrics(_SQUARE.format(side=side) + keys).parts("places")
    return metric


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
