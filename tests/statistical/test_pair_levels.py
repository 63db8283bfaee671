"""Coverage and level of the tables of pairs, on draws with fixed seeds.

False-alarm rates are of a fresh seed: each bound is at 4 standard errors, 1 in 16,000 one-sided.
"""

import numpy as np
import pytest

from decoder.pairs.decoding import JointTable, decode_pairs
from decoder.typing import Floats
from tests.pair_support import coupled_table, drawn_pairs, pair_metric

SIZE, LEVEL = 6, 0.05
TABLES = 250
MOST = LEVEL + 4 * (LEVEL * (1 - LEVEL) / TABLES) ** 0.5
LEAST = 0.008  # 2 of 250; fewer by chance in 1 of 2,000 seeds


def covered(table: JointTable, truth: Floats) -> float:
    cells = table.cells
    return float(((cells.low <= truth) & (truth <= cells.high)).mean())


@pytest.mark.statistical
def test_pairs_cover_and_hold_their_level() -> None:
    """40 tables of 36 cells: the coverage of 1,440 intervals has a standard error of .006."""
    rng = np.random.default_rng(204)
    metric, truth = pair_metric(SIZE, SIZE, 2.04), coupled_table(SIZE, SIZE, 0.5)
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
