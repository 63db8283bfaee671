"""Maps over time: counts drawn exactly as memoized devices make them, and their true maps.

Given a device's values, its permanent bits are drawn once for each distinct value; given those, the
sum of all instantaneous answers to a bit in a period is a sum of two binomials. So a period of a
million devices costs as much as one of a thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from decoder.candidates.lists import Candidates
from decoder.density.cells import Places
from decoder.numerics.bit_tensor import Positions
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import normalize
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.populations.draws import aggregate_of_metric
from tests.metric_texts import declaration

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_FIRST_DAY = date(2024, 1, 31)


@dataclass(frozen=True)
class PeriodCounts:
    """The counts that a collector holds of T periods. reports: (T, m). bits: (T, m, k)."""

    reports: Integers
    bits: Integers

    def aggregate(self, metric: Metric, periods: slice, first: date, last: date) -> Aggregate:
        """The aggregate that a collector would serve of some of the periods, as one window."""
        reports, bits = (one[periods].sum(axis=0) for one in (self.reports, self.bits))
        return aggregate_of_metric(metric, reports, bits, first, last)


def value_positions(values: Sequence[str], params: RapporParams) -> Positions:
    """Index tensor (M, m, h) of the values of a level."""
    return Candidates([normalize(value) for value in values]).positions(params)


def capped(values: Integers, cap: int, other: int) -> Integers:
    """Replace what comes after `cap` values of a device by `other`. values: (n, T)."""
    result = values.copy()
    for row in result:
        known = {other}
        for period, value in enumerate(row):
            if value not in known:
                if len(known) < cap:
                    known.add(int(value))
                else:
                    row[period] = other
    return result


def draw_memo(
    values: Integers, names: Sequence[str], params: RapporParams, rng: np.random.Generator
) -> PeriodCounts:
    """Every device reports in every period. values: (n, T), indices into `names`."""
    num_devices, num_periods = values.shape
    m, k = params.num_cohorts, params.num_bits
    positions = value_positions(names, params)[:, :, 0].astype(np.int64)
    cohorts: Integers = np.sort(rng.integers(m, size=num_devices))
    rng.shuffle(values := values.copy())
    reports = np.bincount(cohorts, minlength=m)
    ones = np.zeros((num_periods, m, k), dtype=np.int64)
    for first in range(0, num_devices, _CHUNK):
        part = slice(first, first + _CHUNK)
        _add_permanent(values[part], positions, cohorts[part], params, rng, ones)
    return PeriodCounts(
        np.tile(reports, (num_periods, 1)),
        _instantaneous(ones, reports[None, :, None], params, rng),
    )


_CHUNK = 20_000


def _add_permanent(
    values: Integers,
    positions: Integers,
    cohorts: Integers,
    params: RapporParams,
    rng: np.random.Generator,
    ones: Integers,
) -> None:
    """Draw permanent bits of each device's distinct values, and count them in each period."""
    own = positions[values, cohorts[:, None]]  # the bit (or symbol) of each period, (n, T)
    order = np.argsort(own, axis=1, kind="stable")
    ranked = np.take_along_axis(own, order, axis=1)
    new = np.ones(ranked.shape, dtype=bool)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    number = np.cumsum(new.ravel()) - 1  # of the distinct (device, bit) pair
    drawn = _permanent(ranked.ravel()[new.ravel()], params, rng)
    index = np.empty(own.shape, dtype=np.int64)
    np.put_along_axis(index, order, number.reshape(own.shape), axis=1)
    present, starts = np.unique(cohorts, return_index=True)  # cohorts come sorted
    for period in range(own.shape[1]):
        rows = drawn[index[:, period]]
        ones[period, present] += np.add.reduceat(rows, starts, axis=0)


def _permanent(bits: Integers, params: RapporParams, rng: np.random.Generator) -> NDArray[np.int32]:
    """B' of values that set one bit each: (len(bits), k), of 0 and 1."""
    if not params.scheme.symbols:
        return permanent_bits(bits[:, None], params, rng).astype(np.int32)
    k = params.num_bits
    drawn = np.zeros((len(bits), k), dtype=np.int32)
    moved = rng.random(len(bits)) >= params.mechanism.p1 / PROBABILITY_SCALE
    shift = rng.integers(1, k, size=len(bits))
    drawn[np.arange(len(bits)), np.where(moved, (bits + shift) % k, bits)] = 1
    return drawn


def permanent_bits(
    own: Integers, params: RapporParams, rng: np.random.Generator
) -> NDArray[np.float32]:
    """B' of filters with the bits `own` (n, h) set: (n, k) of 0 and 1."""
    keep, lie, _, _ = params.mechanism.rates
    chance = np.full((len(own), params.num_bits + 1), lie, dtype=np.float32)  # k: a repeated hash
    np.put_along_axis(chance, own, keep, axis=1)
    chance = chance[:, :-1]  # multiples of 2^-16, exact; a draw has 24 bits
    return (rng.random(chance.shape, dtype=np.float32) < chance).astype(np.float32)


def _instantaneous(
    ones: Integers, reports: Integers, params: RapporParams, rng: np.random.Generator
) -> Integers:
    """Sum of the second round over devices, given how many permanent ones there are."""
    mechanism = params.mechanism
    show, hide = mechanism.p2 / PROBABILITY_SCALE, mechanism.q2 / PROBABILITY_SCALE
    if params.scheme.symbols:
        k = params.num_bits
        shown = np.zeros_like(ones)
        for symbol in range(k):
            chances = np.full(k, hide)
            chances[symbol] = 1 - (k - 1) * hide
            shown += rng.multinomial(ones[..., symbol], chances)
        return shown
    zeros = np.broadcast_to(reports, ones.shape) - ones
    return np.asarray(rng.binomial(ones, show) + rng.binomial(zeros, hide))


def draw_window(
    values: Integers,
    names: Sequence[str],
    params: RapporParams,
    window: int,
    rng: np.random.Generator,
) -> PeriodCounts:
    """Each device reports afresh in the periods of its phase modulo `window`."""
    num_devices, num_periods = values.shape
    m, k = params.num_cohorts, params.num_bits
    positions = value_positions(names, params).astype(np.int64)
    cohorts: Integers = rng.integers(m, size=(num_devices,))
    phase: Integers = rng.integers(window, size=(num_devices,))
    reports = np.zeros((num_periods, m), dtype=np.int64)
    ones = np.zeros((num_periods, m, k + 1), dtype=np.int64)  # the last: hashes that repeat another
    for period in range(num_periods):
        mine = np.flatnonzero(phase == period % window)
        reports[period] = np.bincount(cohorts[mine], minlength=m)
        bits = positions[values[mine, period], cohorts[mine]]
        np.add.at(ones[period], (cohorts[mine, None], bits), 1)
    return PeriodCounts(reports, _instantaneous(ones[..., :k], reports[..., None], params, rng))


def square_metric(side: int, keys: str) -> Metric:
    """A location metric of side * side cells; `keys`: further keys of its declaration."""
    shape = {"grid": "square", "box": [0, 0, 8, 8], "rows": side, "columns": side, "levels": [0]}
    (metric,) = parse_metrics(declaration("places", "location", **shape) + keys).parts("places")
    return metric


def draw_windows(
    metric: Metric, places: Places, values: Integers, rng: np.random.Generator
) -> list[list[Aggregate]]:
    """Draw the aggregates of each window; in mode `window` everybody answers once in each."""
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
