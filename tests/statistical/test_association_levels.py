"""Coverage and level of joint tables, on draws with fixed seeds.

False-alarm rates are of a fresh seed: each bound is at 4 standard errors, 1 in 16,000 one-sided.
"""

from __future__ import annotations

import numpy as np
import pytest

from decoder.association.associations import decode_association
from decoder.association.pairs import decode_pairs
from decoder.association.table import JointTable
from decoder.typing import Floats
from simulations.populations.pairs import coupled_table, drawn_pairs, pair_metric
from tests.linked_draws import drawn_reports, one_hot_side

SIZE, LEVEL = 6, 0.05
TABLES = 250
MOST = LEVEL + 4 * (LEVEL * (1 - LEVEL) / TABLES) ** 0.5
LEAST = 0.008  # 2 of 250; fewer by chance in 1 of 2,000 seeds


def covered(table: JointTable, truth: Floats) -> float:
    cells = table.cells
    return float(((cells.low <= truth) & (truth <= cells.high)).mean())


@pytest.mark.statistical
@pytest.mark.parametrize(
    "epsilon", [2.04, *(pytest.param(one, marks=pytest.mark.long) for one in (1.07, 4.39))]
)
def test_pairs_cover_and_hold_their_level(epsilon: float) -> None:
    """40 tables of 36 cells: the coverage of 1,440 intervals has a standard error of .006."""
    rng = np.random.default_rng(round(100 * epsilon))
    metric, truth = pair_metric(SIZE, SIZE, epsilon), coupled_table(SIZE, SIZE, 0.5)
    shares = [
        covered(decode_pairs(drawn_pairs(metric, truth, 50_000, rng)), truth) for _ in range(40)
    ]
    assert abs(np.mean(shares) - 0.95) < 4 * 0.006
    product = coupled_table(SIZE, SIZE, 0.0)
    refused = [
        decode_pairs(drawn_pairs(metric, product, 50_000, rng)).independence.p_value <= LEVEL
        for _ in range(TABLES)
    ]
    assert LEAST <= np.mean(refused) <= MOST


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("noise", [(0.5, 0.25, 0.75), (0.0, 0.25, 0.75)])
def test_moments_cover_and_hold_their_level(noise: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(7)
    first, second = one_hot_side("a", SIZE, *noise), one_hot_side("b", SIZE, *noise)
    truth, product = coupled_table(SIZE, SIZE, 0.5), coupled_table(SIZE, SIZE, 0.0)

    def decoded(shares: Floats) -> JointTable:
        reports = drawn_reports(shares, 10_000, first, second, rng)
        return decode_association(reports, first, second, likelihood=False)

    assert abs(np.mean([covered(decoded(truth), truth) for _ in range(40)]) - 0.95) < 4 * 0.006
    refused = [decoded(product).independence.p_value <= LEVEL for _ in range(TABLES)]
    assert LEAST <= np.mean(refused) <= MOST
