"""Worlds of flows that the gravity model describes, and such as it does not."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from decoder.typing import Floats
from rappor_core.metrics.flow import Flow

FlowWorld = Literal["as is", "shuffled", "spikes", "even", "one cell"]
FLOW_WORLDS: tuple[FlowWorld, ...] = get_args(FlowWorld)
SPIKES, SPIKE = 20, 0.03
TO_ONE_CELL = 0.7


def in_world(matrix: Floats, flow: Flow, world: FlowWorld, rng: np.random.Generator) -> Floats:
    """Change the flows between cells of a matrix; those of other sides stay.

    Args:
        matrix: (P,) shares of pairs, of sum 1.
        flow: of the metric.
        world: `as is`; `shuffled`: the destinations of each cell in another order; `spikes`: 20
            flows of 3 % of the people of cells, the rest even; `even`: all flows equal; `one cell`:
            70 % of each cell's people go to one and the same.
        rng: source of the order, the flows or the cell.

    Returns:
        (P,) shares of sum 1.
    """
    whole, cells = matrix.reshape(flow.num_sides, -1).copy(), len(flow.cells)
    inside = whole[:cells, :cells]
    total = inside.sum()
    if world == "shuffled":
        inside = rng.permuted(inside, axis=1)
    elif world == "even":
        inside = np.full_like(inside, total / inside.size)
    elif world == "spikes":
        found = np.full(inside.size, total * (1 - SPIKES * SPIKE) / inside.size)
        found[rng.choice(inside.size, SPIKES, replace=False)] += SPIKE * total
        inside = found.reshape(inside.shape)
    elif world == "one cell":
        centre = np.zeros((1, cells))
        centre[0, rng.integers(cells)] = 1
        inside = (1 - TO_ONE_CELL) * inside + TO_ONE_CELL * inside.sum(axis=1)[:, None] * centre
    whole[:cells, :cells] = inside
    return np.asarray(whole.ravel())
