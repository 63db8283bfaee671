"""Five questions beside other ways to learn flows, at equal epsilon; unbiased rivals."""

from __future__ import annotations

import numpy as np
import pytest

from simulations.flows.city import city_matrix, city_metric
from simulations.flows.rivals import RIVALS, FlowDraw
from simulations.flows.study import OURS, compare_ways

pytestmark = pytest.mark.slow


def test_five_questions_are_nearest_the_truth() -> None:
    rng = np.random.default_rng(1)
    found = compare_ways([2.0], [100_000], 1, rng, lambda done: None, side=4)
    errors = {one.way: one.error for one in found}
    assert min(errors, key=lambda way: errors[way]) == OURS
    assert errors["all pairs, simplex"] > 1.3 * errors[OURS]
    assert errors["two linked answers, simplex"] > errors["all pairs, simplex"]
    ours = next(one for one in found if one.way == OURS)
    assert (ours.held or 0) >= 0.8
    assert ours.wrong == 0


@pytest.mark.parametrize("way", ["all pairs, simplex", "two linked answers, simplex"])
def test_rivals_without_a_model_reach_the_truth(way: str) -> None:
    metric = city_metric(6.0, 100_000, rows=2, columns=2)
    rng = np.random.default_rng(2)
    matrix = city_matrix(metric.details, rng)
    guess = RIVALS[way](FlowDraw(metric, matrix, 1_000_000_000, rng))
    assert 0.5 * np.abs(guess - matrix).sum() < 0.01
