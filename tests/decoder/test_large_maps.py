"""Maps of more cells than the evidence, or a dense eigenproblem of cells, can be had for."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.density.cells import slot_readings
from decoder.density.field_prior import Belief, Prior
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import LevelEquations
from decoder.density.space_time_field import _shared_freedom
from tests.decoder.series_support import declared, hills, people, windows_of
from tests.map_moves import MODES


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
    shared = fit_field(readings[0], places.laplacian, Belief("neighbors", 0.5), reserved=1)
    s, total = shared.shares, 0.0
    precision = Prior.of("neighbors", places.laplacian, len(s), 1).precision(0.5)
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
