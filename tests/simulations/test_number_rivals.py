"""What the rivals for numbers are: their promise, and that their estimates come to the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decoder.numbers.fit import smoothness
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from simulations.numbers.draws import counts_of, metric_of
from simulations.numbers.populations import POPULATIONS, shares_at_or_above
from simulations.numbers.rivals import RIVALS
from simulations.numbers.wavelet import WaveletReports, tree_levels

LN3 = math.log(3)


@pytest.mark.parametrize("cells", [2, 7, 32, 33])
def test_a_tree_tells_every_cell_from_every_other(cells: int) -> None:
    levels = tree_levels(cells)
    assert len(levels) == math.ceil(math.log2(cells))
    assert sum(level.share for level in levels) == pytest.approx(1)
    paths = {tuple(level.signs[cell] for level in levels) for cell in range(cells)}
    assert len(paths) == cells
    for level in levels:  # rows are orthogonal, halves differ by one cell at most
        rows = level.rows
        assert rows.T @ rows == pytest.approx(len(rows) * np.eye(rows.shape[1]))
        for node in set(level.nodes.tolist()):
            assert abs(level.signs[level.nodes == node].sum()) <= 1


@pytest.mark.parametrize("epsilon", [LN3, 4.0])
def test_a_wavelet_report_keeps_its_promise(epsilon: float) -> None:
    """By enumeration of cohorts, cells and answers: P(answer | cell) differs by e^epsilon at most.

    The cohort says nothing of the cell. The memoised design keeps half of it for each answer.
    """
    rounds = TwoRoundMechanism.one_symbol(2, epsilon)
    drawn = WaveletReports.draw(np.full(9, 1 / 9), rounds, 1_000, np.random.default_rng(1))
    chances = rounds.p_star + (rounds.q_star - rounds.p_star) * drawn.cells
    assert chances.sum(axis=1) == pytest.approx(np.ones_like(chances[:, 0]))
    ratios = chances.max(axis=2) / chances.min(axis=2)
    assert math.exp(epsilon) * 0.999 < ratios.max() <= math.exp(epsilon) * (1 + 1e-9)
    memoised = TwoRoundMechanism.symbols(2, epsilon / 2, 0.45 * epsilon)
    kept = memoised.p1 / PROBABILITY_SCALE
    assert 2 * math.log(kept / (1 - kept)) <= epsilon


@pytest.mark.parametrize("name", RIVALS)
def test_estimates_come_to_the_truth_with_many_devices(name: str) -> None:
    """10^11 devices: the distribution is found to 0.002."""
    population, rng = POPULATIONS[4], np.random.default_rng(3)
    metric = metric_of(population, 2.0)
    truth = shares_at_or_above(population, np.array(metric.details.asked))
    cells = np.concatenate([[1.0], truth]) - np.concatenate([truth, [0.0]])
    prior = smoothness(counts_of(metric, truth, 10_000, rng))
    fitted = RIVALS[name](cells, prior, 2.0, 10**11, rng)
    assert np.abs(np.cumsum(fitted - cells)).max() < 0.002


def test_a_small_move_changes_more_answers_of_wavelets() -> None:
    """By 3 of 32 cells, over all places, levels and rows; of thresholds 3 of 33 lie between."""
    changed = 0.0
    for level in tree_levels(32):
        answers = level.rows[:, level.nodes] * level.signs
        changed += level.share * float((answers[:, 3:] != answers[:, :-3]).mean())
    assert changed == pytest.approx(0.41, abs=0.005)
    assert changed > 4 * 3 / 33
