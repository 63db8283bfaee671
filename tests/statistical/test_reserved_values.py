"""Shares of `other` and `no_data` are in their intervals as often as promised.

60 draws of 36 cells by 20,000 devices, a fifth of all answers `no_data` and a quarter `other`. Of
the 120 intervals at 95 % 106 or more hold the truth (fewer: once in 1,000 runs); exchanged fail.
"""

import numpy as np
import pytest

from decoder.density.maps import estimate_density
from tests.decoder.series_support import WINDOW, declared, people, truths, windows_of

DRAWS = 60
MISSED = 14  # of 120


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_of_both_hold_the_truth() -> None:
    metric, places = declared(WINDOW + 'no_data = "no_data"\n', side=6)
    missed = exchanged = 0
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        values = people(places, 20_000, np.full(1, 0.3125), rng, np.full(1, 0.2))
        one = estimate_density(windows_of(metric, places, values, rng)[0], places=places)
        truth, low, high = truths(values, places)[0][-2:], one.low[-2:], one.high[-2:]
        missed += int(((truth < low) | (truth > high)).sum())
        exchanged += int(((truth[::-1] < low) | (truth[::-1] > high)).sum())
    assert missed <= MISSED < exchanged
