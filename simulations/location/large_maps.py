"""Maps of more cells than deviations can be had for: is the nearest map shown?

Square cells, four weeks of one report each in mode `window`; every week a fifth of the people are
elsewhere, at random, and a tenth outside. In `moving` half of them, in `tenth` a tenth are in one
district in the last two weeks; in `festival` a tenth are in the emptiest cell in the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from decoder.density.cells import places_of
from decoder.density.field_misfit import Misfit, even_map, own_reserved
from decoder.density.map_check import check_map
from decoder.density.map_series import map_windows
from decoder.density.maps import DensityOptions, estimate_density
from decoder.density.slots import slot_readings
from decoder.numerics.threads import one_thread
from rappor_core.metrics.metric import Metric
from simulations.location.moves import OTHER, draw_homes, repeated
from simulations.location.series import cell_distance, draw_windows, true_shares, whole_map
from simulations.location.square_metrics import square_metric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
World = Literal["city", "rough", "uniform", "sparse", "moving", "tenth", "festival"]
WORLDS: tuple[World, ...] = get_args(World)
WAYS = ("pooled", "whole", "alone", "projected", "even")

WEEKS, STEP = 4, 2
_KEYS = ('period = "week"\nmode = "window"\nwindow = 4\nmax_reports = 1\nnum_bits = 32\n'
         "epsilon = {budget}\nnum_cohorts = {cohorts}\n")  # fmt: skip
_SLOPE, _SMOOTH, _TOWNS = 0.8, 0.06, 60
_EXTENT = 1.7


@dataclass(frozen=True)
class Setting:
    """One world. side: cells of a side.  budget: epsilon of a report.  cohorts: of 32 bits."""

    world: World
    side: int
    devices: int
    cohorts: int = 128
    budget: float = 4.0

    def metric(self) -> Metric:
        """The declared location metric of this world."""
        return square_metric(self.side, _KEYS.format(budget=self.budget, cohorts=self.cohorts))


@dataclass(frozen=True)
class Found:
    """Total variation over cells of the last week's map, by way; rejected: by its own reports.

    shown: of the map that is shown.  source: how it was made.  seconds: of processor time, for all
    weeks.
    """

    off: dict[str, float]
    rejected: dict[str, bool]
    shown: float
    source: str
    seconds: float

    @property
    def over_best(self) -> float | None:
        """Total variation of the shown map, less the least one of the ways that the week's own
        reports do not reject.

        None where they reject every way.
        """
        allowed = [off for way, off in self.off.items() if not self.rejected[way]]
        return self.shown - min(allowed) if allowed else None


def world_shares(setting: Setting, rng: np.random.Generator) -> Floats:
    """Draw the share of people that live in each cell, (side^2,), sum 1."""
    side = setting.side
    if setting.world == "uniform":
        return np.full(side**2, 1 / side**2)
    if setting.world == "sparse":
        shares = np.full(side**2, 0.1 / side**2)
        towns = rng.choice(side**2, min(_TOWNS, side**2 // 4), replace=False)
        weights = rng.gamma(0.5, size=len(towns)) + 0.05
        shares[towns] += 0.9 * weights / weights.sum()
        return np.asarray(shares / shares.sum())
    rough = setting.world == "rough"
    noise = rng.standard_normal((side, side))
    field = gaussian_filter(noise, 1.0 if rough else _SMOOTH * side, mode="nearest")
    one = np.linspace(-_EXTENT, _EXTENT, side) ** 2
    logs = (1.5 if rough else 1.0) * field / field.std() - _SLOPE * (one[:, None] + one)
    weights = np.exp(logs).ravel()
    return np.asarray(weights / weights.sum())


def draw_people(setting: Setting, rng: np.random.Generator) -> Integers:
    """Cells of the people, or `other`, in each week: (devices, 4), indices."""
    side, devices, shares = setting.side, setting.devices, world_shares(setting, rng)
    values, there = draw_homes(side, devices, WEEKS, shares, rng)
    part = rng.random(devices)
    if setting.world in ("moving", "tenth"):
        moved = part < (0.5 if setting.world == "moving" else 0.1)
        values[moved, STEP:] = there[moved, None]
    elif setting.world == "festival":
        values[part < 0.1, -1] = int(np.argmin(shares))
    values[rng.random(values.shape) < OTHER] = side**2
    return values


def one_world(setting: Setting, rng: np.random.Generator) -> Found:
    """Draw and map one world, and its last week in every way."""
    metric = setting.metric()
    assert metric.location is not None  # noqa: S101 (`square_metric`)
    places, values = places_of([metric.location]), draw_people(setting, rng)
    size = setting.side**2
    windows, true = draw_windows(metric, places, values, rng), true_shares(values, size + 1)[-1]
    start = time.process_time()
    with one_thread():
        shown = map_windows(windows, places, None, None)[-1]
    seconds = time.process_time() - start
    readings = slot_readings(windows[-1], places, None, keep_empty=True)
    whole = whole_map(windows, places)
    projected = estimate_density(windows[-1], DensityOptions(method="simplex"), places).shares
    with one_thread():
        maps = {
            "whole": own_reserved(Misfit(readings, whole), whole, 1),
            "alone": map_windows(windows[-1:], places, None, None)[0].shares,
            "projected": projected,
            "even": even_map(readings, size + 1, 1),
        }
        if shown.source == "series":
            maps = {"pooled": shown.shares} | maps
        rejected = {way: not check_map(readings, one, 1).agrees for way, one in maps.items()}
    off = {way: cell_distance(one, true) for way, one in maps.items()}
    return Found(off, rejected, cell_distance(shown.shares, true), shown.source, seconds)


def large_maps(
    settings: Sequence[Setting],
    draws: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """One row a world that was drawn."""
    every = repeated(settings, draws, partial(one_world, rng=rng), advance)
    return [
        {
            "world": setting.world,
            "cells": setting.side**2,
            "devices": setting.devices,
            "draw": draw,
            **{way: found.off.get(way) for way in WAYS},
            "rejected": [way for way, one in found.rejected.items() if one],
            "source": found.source,
            "shown": found.shown,
            "over_best": found.over_best,
            "seconds": found.seconds,
        }
        for setting, several in every
        for draw, found in enumerate(several)
    ]
