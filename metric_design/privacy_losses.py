"""Distributions of privacy losses on a grid: split, reversed, convolved; and epsilon at a delta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_GRID = 1 << 12  # points of a distribution of losses
_WIDTH = 20  # deviations of a sum that they span
_RATES = (0.3, 0.6, 1.0, 1.6, 4.0)  # of Chernoff bounds, in units of a normal variable's


class Losses(NamedTuple):
    """A distribution of privacy losses on a grid: point i stands for (first + i) * step nats.

    upper: P and lower: Q, where a loss is ln(P / Q); masses of each point.
    """

    step: float
    first: int
    upper: list[float]
    lower: list[float]


def on_grid(
    losses: Sequence[float], upper: Sequence[float], lower: Sequence[float], times: int
) -> Losses:
    """Round a distribution of privacy losses to a grid: split each mass between the two nearest
    points so that P and Q both keep their sums.

    times: how often it is to be composed; the step is 1/8 of the deviation of a loss or less.
    """
    spread = math.sqrt(
        sum((p + q) * loss**2 for p, q, loss in zip(upper, lower, losses, strict=True)) / 2
    )
    step = spread * min(_WIDTH * math.sqrt(times) / _GRID, 1 / 8)
    first = math.floor(min(losses) / step)
    size = math.floor(max(losses) / step) + 2 - first
    grid = Losses(step, first, [0.0] * size, [0.0] * size)
    rise, fall = math.expm1(step), math.expm1(-step)
    for loss, ups, downs in zip(losses, upper, lower, strict=True):
        i = math.floor(loss / step) - first
        offset = loss - (first + i) * step
        to_upper, to_lower = math.expm1(-offset) / fall, math.expm1(offset) / rise
        grid.upper[i] += (1 - to_upper) * ups
        grid.upper[i + 1] += to_upper * ups
        grid.lower[i] += (1 - to_lower) * downs
        grid.lower[i + 1] += to_lower * downs
    return grid


def turned_round(one: Losses) -> Losses:
    """The privacy losses of Q against P in place of P against Q: each changes its sign."""
    first = -(one.first + len(one.upper) - 1)
    return Losses(one.step, first, one.lower[::-1], one.upper[::-1])


def composed(parts: Sequence[tuple[Losses, int]], slack: float) -> Losses:
    """The distribution of a sum of independent losses; all grids must have the same step."""
    step = parts[0][0].step
    low = _farthest([(turned_round(one), times) for one, times in parts], slack)
    first, last = -low, _farthest(parts, slack)
    size = 1 << (last - first).bit_length()
    upper = _sums([(one.upper, one.first, times) for one, times in parts], size)
    lower = _sums([(one.lower, one.first, times) for one, times in parts], size)
    grid = Losses(step, first, [0.0] * size, [0.0] * size)
    for i in range(size):  # the larger of the two is the more exact; their ratio is known
        loss, place = (first + i) * step, (first + i) % size
        if loss > 0:
            grid.upper[i] = max(upper[place], 0.0)
            grid.lower[i] = grid.upper[i] * math.exp(-loss)
        else:
            grid.lower[i] = max(lower[place], 0.0)
            grid.upper[i] = grid.lower[i] * math.exp(loss)
    return grid


def _farthest(parts: Sequence[tuple[Losses, int]], slack: float) -> int:
    """Point of the grid above which a sum stays with chance <= slack, under P and under Q."""
    end = sum((one.first + len(one.upper) - 1) * times for one, times in parts)
    return min(end, max(_chernoff(parts, slack, upper=True), _chernoff(parts, slack, upper=False)))


def _chernoff(parts: Sequence[tuple[Losses, int]], slack: float, *, upper: bool) -> int:
    """The least of the points that Chernoff's bound gives for some rates, in steps."""
    weighed = [
        ([(one.first + i, mass) for i, mass in enumerate(masses) if mass > 0], times)
        for one, times in parts
        for masses in (one.upper if upper else one.lower,)
    ]
    square = sum(times * mass * x * x for points, times in weighed for x, mass in points)
    usual = math.sqrt(-2 * math.log(slack) / square)
    best = math.inf
    for rate in (usual * factor for factor in _RATES):
        total = -math.log(slack)
        for points, times in weighed:
            end = points[-1][0]
            scaled = sum(mass * math.exp((x - end) * rate) for x, mass in points)
            total += times * (math.log(scaled) + end * rate)
        best = min(best, total / rate)
    return math.ceil(best)


def _sums(parts: Sequence[tuple[Sequence[float], int, int]], size: int) -> list[float]:
    """Convolve (masses, first point, times) on a ring of `size` points."""
    product = np.ones(size, dtype=complex)
    for masses, first, times in parts:
        ring = np.zeros(size)
        np.add.at(ring, np.arange(first, first + len(masses)) % size, masses)
        product *= np.fft.fft(ring) ** times
    found: list[float] = np.fft.ifft(product).real.tolist()
    return found


def epsilon_at(losses: Losses, delta: float) -> float:
    """The least epsilon >= 0 with sum of (P - e^epsilon Q)+ <= delta."""
    ups = downs = 0.0
    for i in range(len(losses.upper) - 1, -1, -1):
        ups += losses.upper[i]
        downs += losses.lower[i]
        below = max((losses.first + i - 1) * losses.step, 0.0)
        if ups - math.exp(below) * downs > delta:
            return max(math.log((ups - delta) / downs), 0.0)
        if below == 0.0:
            break
    return 0.0
