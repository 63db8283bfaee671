"""What an observer of linked reports learns about a change of a number, or of a category.

30 reports before and 30 after a change, a lifetime of 4 nats or ln 3. The observer knows cohort and
parameters. The area under the curve for changed and unchanged devices has a standard error below
0.005 with 6,000 of each; the tolerance is 4.9 of them.
"""

import math

import numpy as np
import pytest

from decoder.typing import Floats
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

pytestmark = pytest.mark.statistical

DEVICES, REPORTS = 6_000, 30
TOLERANCE = 0.025


def area(changed: Floats, others: Floats) -> float:
    """P(the score of one that changed is higher), half of ties."""
    order = np.concatenate([changed, others])
    _, inverse, counts = np.unique(order, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    total = ranks[inverse[: len(changed)]].sum()
    n, m = len(changed), len(others)
    return float((total - n * (n + 1) / 2) / (n * m))


def rounds_of(life: float) -> tuple[float, float]:
    rounds = TwoRoundMechanism.symbols(2, life / 2, 0.45 * life)
    return rounds.p1 / PROBABILITY_SCALE, rounds.p2 / PROBABILITY_SCALE


def scores(crossed: np.ndarray, life: float, rng: np.random.Generator) -> Floats:  # type: ignore[type-arg]
    """How far the shares of yes before and after are apart."""
    p1, p2 = rounds_of(life)
    size = len(crossed)
    answers = np.where(rng.random((size, 2)) < p1, [0, 1], [1, 0])
    before = rng.integers(0, 2, size)
    after = np.where(crossed, 1 - before, before)
    rows = np.arange(size)
    result = [
        rng.binomial(REPORTS, np.where(answers[rows, side] == 1, p2, 1 - p2))
        for side in (before, after)
    ]
    found: Floats = np.abs(result[0] - result[1]).astype(np.float64)
    return found


@pytest.mark.parametrize(("life", "expected"), [(math.log(3), 0.77), (4.0, 0.91)])
def test_a_device_whose_cut_is_crossed(life: float, expected: float) -> None:
    """The worst case, which privacy.md names."""
    rng = np.random.default_rng(1)
    yes, no = np.ones(DEVICES, dtype=bool), np.zeros(DEVICES, dtype=bool)
    found = area(scores(yes, life, rng), scores(no, life, rng))
    assert abs(found - expected) < TOLERANCE


@pytest.mark.parametrize(("life", "most"), [(math.log(3), 0.60), (4.0, 0.65)])
def test_a_change_to_another_number_of_the_population(life: float, most: float) -> None:
    """Numbers uniform, cuts uniform: a third of the devices cross theirs."""
    rng = np.random.default_rng(2)
    numbers, cuts = rng.random((DEVICES, 2)), rng.random((DEVICES, 1))
    crossed = (numbers >= cuts)[:, 0] != (numbers >= cuts)[:, 1]
    no = np.zeros(DEVICES, dtype=bool)
    assert area(scores(crossed, life, rng), scores(no, life, rng)) < most


def test_a_bit_for_each_bin_shows_every_change() -> None:
    """The counterpart: basic RAPPOR (L-OSUE) over 32 bins, cap 3, at the same lifetime."""
    rng = np.random.default_rng(3)
    rounds = TwoRoundMechanism.optimized(4.0 / 3, 0.9 * 4.0 / 3)
    p1, q1 = rounds.p1 / PROBABILITY_SCALE, rounds.q1 / PROBABILITY_SCALE
    p2, q2 = rounds.p2 / PROBABILITY_SCALE, rounds.q2 / PROBABILITY_SCALE

    def result(permanent: np.ndarray) -> Floats:  # type: ignore[type-arg]
        counts: Floats = rng.binomial(REPORTS, np.where(permanent, p2, q2)).astype(np.float64)
        return counts

    def permanent(size: int) -> np.ndarray:  # type: ignore[type-arg]
        bins = rng.integers(0, 32, size)
        return rng.random((size, 32)) < np.where(np.eye(32, dtype=bool)[bins], p1, q1)

    size = 2_000
    first, second = permanent(size), permanent(size)
    changed = np.abs(result(first) - result(second)).sum(axis=1)
    others = np.abs(result(first) - result(first)).sum(axis=1)
    assert area(changed, others) > 0.95
