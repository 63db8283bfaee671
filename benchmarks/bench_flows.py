"""The error of decoded flows in a synthetic city, compared with other methods at equal epsilon."""

import numpy as np
import pytest

from benchmarks.conftest import OURS, Comparison
from benchmarks.flow_rivals import RIVALS, FlowDraw
from decoder.flows.decoding import decode_flows
from simulations.flows import city_matrix, city_metric, draw_flows, off

ROUNDS, EPSILON, SIDE = 2, 2.0, 5


@pytest.mark.parametrize("devices", [20_000, 100_000, 1_000_000])
@pytest.mark.parametrize("who", [OURS, *RIVALS])
def bench_flows(comparison: Comparison, devices: int, who: str) -> None:
    """Measure the total variation distance from the true matrix; each round draws a new city."""

    def distance(number: int) -> float:
        rng = np.random.default_rng([1, number])
        metric = city_metric(EPSILON, devices, rows=SIDE, columns=SIDE)
        draw = FlowDraw(metric, city_matrix(metric.details, rng), devices, rng)
        if who == OURS:
            counts = draw_flows(metric, draw.matrix, devices, rng)
            return off(decode_flows(counts).flow_share, draw.matrix)
        return off(RIVALS[who](draw), draw.matrix)

    comparison.name(
        f"flows of 100 cells, {EPSILON:g} nats, {devices:,} devices: total variation", who
    )
    comparison.values(distance, ROUNDS, "TV")
