"""Predictions of the planner against the real decoder; all: `rappor simulate plan`."""

from __future__ import annotations

import numpy as np
import pytest

from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.experiments.plan_check import cases, check
from simulations.populations.draws import draw_aggregate


def test_sixty_settings() -> None:
    assert len({case.name for case in cases()}) == 60


@pytest.mark.parametrize("number", [33, 38, 41, 44])
def test_detection_is_predicted(number: int) -> None:
    """Within .03 and 3.3 errors of the simulation: a false alarm in 250 runs of the four."""
    found = check(cases()[number], 60, np.random.default_rng(number))
    assert abs(found.error) <= 0.03 + 3.3 * found.noise
    assert found.inside >= 0.85
    assert abs(found.found - found.expected) <= 1


def test_detection_in_bloom_filters_is_predicted() -> None:
    found = check(cases()[6], 25, np.random.default_rng(2))
    assert abs(found.error) <= 0.03 + 3.3 * found.noise


def test_repeated_reports_have_the_variance_of_permanent_bits() -> None:
    """r * within + r^2 * between, for nobody's bit: 4,200 draws, so within 10 %."""
    params = RapporParams(8, 1, 1, TwoRoundMechanism.rappor(0.5, 0.5, 0.75), "one_hot")
    rng = np.random.default_rng(5)
    devices, each = 1_000, 7
    values = [f"v{i}" for i in range(8)]
    shares = np.zeros(8)
    shares[0] = 1
    counts = [
        draw_aggregate(values, shares, devices, params, rng, reports_each=each)[0].bit_counts[0][1:]
        for _ in range(600)
    ]
    within = 0.25 * 0.75 * 0.25 + 0.75 * 0.5 * 0.5
    between = 0.25 * 0.75 * 0.25**2
    expected = devices * (each * within + each**2 * between)
    assert np.var(counts) == pytest.approx(expected, rel=0.1)
    assert np.var(counts) > 1.2 * devices * each * (within + between)
