"""Five questions alongside other ways to learn flows, at equal epsilon; unbiased rivals."""

import numpy as np
import pytest

from benchmarks.flow_rivals import RIVALS, FlowDraw
from decoder.flows.decoding import decode_flows
from simulations.flows import LARGEST, city_matrix, city_metric, draw_flows, is_wrong, off


@pytest.mark.long
def test_five_questions_are_nearest_the_truth() -> None:
    rng = np.random.default_rng(1)
    metric = city_metric(2.0, 100_000, rows=4, columns=4)
    draw = FlowDraw(metric, city_matrix(metric.details, rng), 100_000, rng)
    ours = decode_flows(draw_flows(metric, draw.matrix, draw.devices, rng))
    error = off(ours.flow_share, draw.matrix)
    errors = {name: off(way(draw), draw.matrix) for name, way in RIVALS.items()}
    assert min(errors.values()) > error
    assert errors["all pairs, simplex"] > 1.3 * error
    assert errors["two linked answers, simplex"] > errors["all pairs, simplex"]
    largest = np.argsort(-draw.matrix)[:LARGEST]
    table, truth = ours.flows.at(largest), draw.matrix[largest]
    assert ((table.low <= truth) & (truth <= table.high)).mean() >= 0.8
    assert not is_wrong(ours, draw.matrix).any()


@pytest.mark.parametrize("way", ["all pairs, simplex", "two linked answers, simplex"])
def test_rivals_without_a_model_reach_the_truth(way: str) -> None:
    metric = city_metric(6.0, 100_000, rows=2, columns=2)
    rng = np.random.default_rng(2)
    matrix = city_matrix(metric.details, rng)
    guess = RIVALS[way](FlowDraw(metric, matrix, 1_000_000_000, rng))
    assert 0.5 * np.abs(guess - matrix).sum() < 0.01
