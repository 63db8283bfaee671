"""Maps of heavy cells that cohorts cannot place, and of a sharp edge that the prior blurs."""

import numpy as np
import pytest

from decoder.density import map_series
from decoder.density.cells import places_of
from decoder.density.field_prior import Belief
from decoder.density.maps import Density, estimate_density
from decoder.results.selective_intervals import MIN_LOW
from tests.map_draws import cell_distance, draw_windows, square_metric, true_shares

MODE = ('period = "week"\nmode = "memo"\nencoding = "symbol"\nnum_symbols = 2\n'
        "epsilon_infinity = 4.0\nepsilon_one = 2.4\nnum_cohorts = ")  # fmt: skip
SIDE = 24
EDGE = ('period = "week"\nnum_cohorts = 48\nmode = "window"\nwindow = 3\nmax_reports = 1\n'
        "epsilon = 6.0\nnum_bits = 32\n")  # fmt: skip


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


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_hold_towers_that_the_map_has_elsewhere() -> None:
    """16 numbers for 962 cells: before, intervals (.009, .209), (.235, .305), (0, .125) for .18."""
    found, tall, true = towers(31, 16, 1)
    assert np.abs(found.shares - true)[tall].max() > 0.1
    assert ((found.low <= true) & (true <= found.high)).mean() > 0.99
    assert (found.high[tall] < 0.6).all()
    assert any("16 cohorts cannot tell" in text and "30 cohorts" in text for text in found.warnings)


def test_a_small_map_of_too_few_cohorts_leaves_every_cell_open() -> None:
    """8 numbers for 101 cells. Without the bounds one tower of .18 had the interval (0, .10)."""
    found, tall, true = towers(10, 8, 2)
    assert np.abs(found.shares - true)[tall].max() > 0.1
    assert found.low[tall].max() <= MIN_LOW
    assert ((found.low <= true) & (true <= found.high)).all()
    assert (found.high[tall] < 0.6).all()
    assert any("8 cohorts cannot tell" in text and "20 cohorts" in text for text in found.warnings)


@pytest.mark.long
@pytest.mark.statistical
def test_with_enough_cohorts_intervals_are_short() -> None:
    found, tall, true = towers(13, 32, 0)
    assert ((found.low <= true) & (true <= found.high))[tall].all()
    assert (found.low[tall] > 0.15).all()
    assert not any("cannot tell" in text for text in found.warnings)


@pytest.mark.long
@pytest.mark.statistical
def test_a_weaker_prior_is_taken_before_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    """.07 off; the projection is .2 off."""
    metric, rng = square_metric(SIDE, EDGE), np.random.default_rng(0)
    assert metric.location is not None
    places, size = places_of([metric.location]), SIDE**2
    weights = np.where(np.arange(size) // SIDE < SIDE // 3, 25.0, 1.0)
    values = rng.choice(size, (150_000, 1), p=weights / weights.sum())
    values[rng.random(values.shape) < 0.1] = size
    (window,), true = draw_windows(metric, places, values, rng), true_shares(values, size + 1)[0]
    found = estimate_density(window, places=places)
    assert found.source == "field"
    assert found.check is not None
    assert found.check.agrees
    assert any("of strength 1 was taken" in text for text in found.warnings)
    assert found.belief == Belief("neighbors", 1.0)
    off = cell_distance(found.shares, true)
    monkeypatch.setattr(map_series, "WEAKER", 0)
    projected = estimate_density(window, places=places)
    assert projected.source == "projection"
    assert off < 0.1 < cell_distance(projected.shares, true)
