"""Maps whose cohorts cannot say where a few heavy cells are: intervals hold, and they warn."""

import numpy as np
import pytest

from decoder.density.cells import places_of
from decoder.density.maps import Density, estimate_density
from tests.map_draws import draw_windows, square_metric, true_shares

MODE = ('period = "week"\nmode = "memo"\nencoding = "symbol"\nnum_symbols = 2\n'
        "epsilon_infinity = 4.0\nepsilon_one = 2.4\nnum_cohorts = ")  # fmt: skip


def towers(side: int, cohorts: int, seed: int) -> tuple[Density, np.ndarray, np.ndarray]:
    """A map of three towers of .18 each, which the towers are, and the true shares."""
    rng, metric = (
        np.random.default_rng([side, cohorts, seed]),
        square_metric(side, f"{MODE}{cohorts}\n"),
    )
    assert metric.location is not None
    places, size = places_of([metric.location]), side * side
    tall = rng.choice(size, 3, replace=False)
    shares = np.full(size, 0.36 / size)
    shares[tall] += 0.18
    values = rng.choice(size + 1, (100_000, 1), p=np.append(shares, 1 - shares.sum()))
    (window,) = draw_windows(metric, places, values, rng)
    return estimate_density(window, None, places), tall, true_shares(values, size + 1)[0]


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_intervals_hold_towers_that_the_map_has_elsewhere(seed: int) -> None:
    """16 numbers for 962 cells: before, intervals (.009, .209), (.235, .305), (0, .125) for .18."""
    found, tall, true = towers(31, 16, seed)
    assert np.abs(found.shares - true)[tall].max() > 0.1
    assert ((found.low <= true) & (true <= found.high)).mean() > 0.99
    assert (found.high[tall] < 0.6).all()
    assert any("16 cohorts cannot tell" in text and "30 cohorts" in text for text in found.warnings)


@pytest.mark.statistical
def test_with_enough_cohorts_intervals_are_short() -> None:
    found, tall, true = towers(13, 32, 0)
    assert ((found.low <= true) & (true <= found.high))[tall].all()
    assert (found.low[tall] > 0.15).all()
    assert not any("cannot tell" in text for text in found.warnings)
