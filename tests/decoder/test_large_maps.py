"""Maps of more cells than the evidence, or a dense eigenproblem of cells, can be had for."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.density.cells import places_of
from decoder.density.field_prior import Belief, Prior
from decoder.density.gaussian_field import MOST_CELLS_FOR_EVIDENCE, fit_field
from decoder.density.linear_system import LevelEquations
from decoder.density.map_series import MOST_CELLS_POOLED, map_windows
from decoder.density.slots import slot_readings
from decoder.density.space_time_field import _shared_freedom
from rappor_core.grid.box import OTHER
from tests.decoder.series_support import declared, hills, people, windows_of
from tests.map_draws import cell_distance, draw_windows, square_metric, true_shares
from tests.map_moves import MODES

SIDE = 68
KEYS = 'period = "week"\nnum_cohorts = 16\n' + MODES["window"].format(budget=4.0)


@pytest.mark.long
@pytest.mark.statistical
def test_maps_of_many_cells_are_pooled() -> None:
    """4,624 cells, 512 rows: .23 off; .40 by itself with strength 0.05, as before.

    No week differs from the others but by chance, so that deviations would predict no better.
    """
    rng, metric = np.random.default_rng(4), square_metric(SIDE, KEYS)
    assert metric.location is not None
    places = places_of([metric.location], (OTHER,))
    assert SIDE**2 > MOST_CELLS_FOR_EVIDENCE > MOST_CELLS_POOLED
    values = people(places, 50_000, np.full(3, 0.1), rng)
    windows = draw_windows(metric, places, values, rng)
    maps = map_windows(windows, places, None, None)
    rough = fit_field(slot_readings(windows[0], places, None), places.laplacian,
                      Belief("neighbours", 0.05), reserved=1)  # fmt: skip
    true = true_shares(values, SIDE**2 + 1)
    assert {one.source for one in maps} == {"whole"}
    assert all(one.check.agrees and one.changes is None and not one.doubts for one in maps)
    off = [cell_distance(one.shares, t) for one, t in zip(maps, true, strict=True)]
    assert max(off) < 0.8 * cell_distance(rough.shares, true[0])


@pytest.mark.long
@pytest.mark.statistical
def test_a_large_map_of_noise_says_so() -> None:
    rng, metric = np.random.default_rng(5), square_metric(SIDE, KEYS)
    assert metric.location is not None
    places = places_of([metric.location], (OTHER,))
    values = rng.integers(SIDE**2, size=(5_000, 2))
    for one in map_windows(draw_windows(metric, places, values, rng), places, None, None):
        assert one.check.agrees
        assert any("hardly tell" in doubt for doubt in one.doubts)


@pytest.mark.parametrize("rows", ["fewer", "more"])
def test_parameters_are_counted_by_rows_as_by_cells(rows: str) -> None:
    keys = MODES["window"].format(budget=4.0).replace("window = 6", "window = 12")
    metric, places = declared(keys, side=6)
    rng = np.random.default_rng(6)
    assert hills(places).min() == 0
    values = people(places, 9_000, np.full(2, 0.2), rng)
    readings = [slot_readings(one, places, None) for one in windows_of(metric, places, values, rng)]
    if rows == "fewer":
        some = slice(0, 20)
        readings = [[cut(one, some) for one in window] for window in readings]
    shared = fit_field(readings[0], places.laplacian, Belief("neighbours", 0.5), reserved=1)
    s, total = shared.shares, 0.0
    precision = Prior.of("neighbours", places.laplacian, len(s), 1).precision(0.5)
    found = _shared_freedom(readings, s, precision)
    for level in zip(*readings, strict=True):
        weights = sum(one.precision(s) for one in level)
        design = level[0].design.toarray()
        toward = (design - (design @ s)[:, None]) * s
        total = total + toward.T @ (np.asarray(weights)[:, None] * toward)
    expected = np.trace(np.linalg.solve(total + precision.toarray(), total))
    assert found == pytest.approx(expected, rel=1e-6)


def cut(one: LevelEquations, rows: slice) -> LevelEquations:
    return replace(one, design=one.design[rows], target=one.target[rows], reports=one.reports[rows])
