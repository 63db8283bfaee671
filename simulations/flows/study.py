"""An experiment: five questions beside other ways to learn the flows of a made-up city."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from decoder.flows.tables import FlowDecoding
from decoder.typing import Flags, Floats
from simulations.flows.city import city_matrix, city_metric
from simulations.flows.rivals import RIVALS, FlowDraw, five_questions

OURS = "five questions, gravity and departures"
LARGEST = 50  # flows whose intervals are counted


@dataclass(frozen=True)
class FlowSetting:
    """The result of one way at one epsilon and number of devices, a mean of runs.

    error: total variation to the true matrix.  detected, wrong: flows detected, and those whose
    true share is below a quarter of the estimate.  held: part of the 95 % intervals of the 50
    largest flows that hold.  zones: standard error of a pair of zones, smallest: flow that is found
    8 times in 10, shares.  own: None for rivals, which have no intervals.  seconds: of a processor.
    """

    way: str
    epsilon: float
    devices: int
    error: float
    detected: float | None = None
    wrong: float | None = None
    held: float | None = None
    zones: float | None = None
    smallest: float | None = None
    seconds: float | None = None

    def row(self) -> dict[str, Any]:
        """Plain values by column."""
        return asdict(self)


def compare_ways(
    epsilons: Sequence[float],
    devices: Sequence[int],
    runs: int,
    rng: np.random.Generator,
    advance: Callable[[int], None],
    side: int = 5,
) -> list[FlowSetting]:
    """Measure every way at every setting.

    Args:
        epsilons: nats of a device, for life.
        devices: numbers of them.
        runs: cities and draws of each setting.
        rng: source of the cities and draws.
        advance: called with 1 after each way of each run.
        side: zones from west to east; each has two by two cells.

    Returns:
        A row for each way and setting.
    """
    found = []
    for epsilon, number in product(epsilons, devices):
        each: dict[str, list[FlowSetting]] = {}
        for _ in range(runs):
            metric = city_metric(epsilon, number, rows=side, columns=side)
            draw = FlowDraw(metric, city_matrix(metric.details, rng), number, rng)
            started = time.process_time()
            ours = five_questions(draw)
            spent = time.process_time() - started
            each.setdefault(OURS, []).append(_ours(draw, ours, epsilon, spent))
            advance(1)
            for name, way in RIVALS.items():
                error = off(way(draw), draw.matrix)
                each.setdefault(name, []).append(FlowSetting(name, epsilon, number, error))
                advance(1)
        found += [_mean(settings) for settings in each.values()]
    return found


def _ours(draw: FlowDraw, found: FlowDecoding, epsilon: float, seconds: float) -> FlowSetting:
    largest = np.argsort(-draw.matrix)[:LARGEST]
    table, detected = found.flows.at(largest), found.detected
    held = (table.low <= draw.matrix[largest]) & (draw.matrix[largest] <= table.high)
    return FlowSetting(
        OURS, epsilon, draw.devices, off(found.flow_share, draw.matrix), float(detected.sum()),
        float(is_wrong(found, draw.matrix).sum()), float(held.mean()),
        float(found.zones.std_error.mean()), found.detectable_share, seconds,
    )  # fmt: skip


def is_wrong(found: FlowDecoding, truth: Floats) -> Flags:
    """(detected,) flows detected whose true share (P,) is below a quarter of the estimate."""
    detected = found.detected
    return np.asarray(truth[detected] < 0.25 * found.flows.estimate[detected])


def off(guess: Floats, truth: Floats) -> float:
    """Total variation, 0 equal and 1 apart."""
    return float(0.5 * np.abs(guess - truth).sum())


def _mean(settings: Sequence[FlowSetting]) -> FlowSetting:
    """The mean of each number over the runs of one way."""
    rows = [one.row() for one in settings]
    numbers = [name for name, value in rows[0].items() if isinstance(value, float)]
    means = {name: float(np.mean([row[name] for row in rows])) for name in numbers}
    return FlowSetting(**rows[0] | means)
