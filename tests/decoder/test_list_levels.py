"""The levels of drawn lists are those of the decoder's own rule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from decoder.inference.multiple_testing import Correction, decide
from metric_design.list_levels import DrawnLists, draw_lists, list_levels

CANDIDATES, HELD = 300, 40


@pytest.mark.parametrize("rule", ["fdr", "bh"])
def test_a_level_accepts_what_the_decoder_accepts(rule: Correction) -> None:
    """Of one list with 260 p-values that nobody's candidates have."""
    rng = np.random.default_rng(3)
    held = ndtr(-rng.normal(np.linspace(0, 6, HELD), 1))
    nobody = np.sort(rng.random(CANDIDATES - HELD))
    whole = np.concatenate([held, nobody])
    accepted = decide(whole, np.ones(CANDIDATES), rule, 0.05).detected
    lists = DrawnLists(
        np.zeros((HELD, 1)), np.zeros((HELD, 1)), nobody[:200, None],
        np.array([(nobody > 0.9).sum()], dtype=float),
    )  # fmt: skip
    level = list_levels(held[:, None], lists, CANDIDATES, 0.05, storey=rule == "fdr")
    assert 5 < accepted.sum() < HELD + 10
    assert ((whole <= level[0]) == accepted).all()


def test_smallest_null_p_values_have_their_law() -> None:
    """The least of 1,000 uniform numbers has mean 1/1,001; 64 lists: within 5 errors of 12.5 %."""
    lists = draw_lists(np.zeros(1), np.ones(1), 1_001)
    assert lists.nobody[0].mean() == pytest.approx(1e-3, rel=0.63)
    assert lists.nobody[99].mean() == pytest.approx(0.1, rel=0.063)
    assert lists.above.mean() == pytest.approx(100, rel=0.06)
