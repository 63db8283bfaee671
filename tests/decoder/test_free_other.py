"""`other` has a parameter of its own: it lends the cells no structure and no evidence."""

import math

import numpy as np
import pytest
from scipy import sparse

from decoder.density.cells import value_positions
from decoder.density.field_misfit import even_map
from decoder.density.field_prior import RESERVED_PRECISION, Belief, Prior
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import LevelEquations, design_of, read_aggregate
from decoder.density.neighbours import cell_laplacian
from decoder.model.noise import BitNoise
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

GRID = Grid("square", Box(0, 0, 1, 1), (0,), 31, 31)
CELLS = [*GRID.cells(0), OTHER]
LN3 = math.log(3)
SYMBOLS = RapporParams(2, 1, 64, TwoRoundMechanism.symbols(2, 2 * LN3, LN3), "symbol")
BITS = RapporParams(32, 1, 64, TwoRoundMechanism.optimised(2 * LN3, LN3))


@pytest.mark.parametrize(
    "params",
    [pytest.param(SYMBOLS, marks=pytest.mark.long), BITS],
    ids=["symbols", "bits"],
)
def test_even_cells_beside_large_other_stay_even(params: RapporParams) -> None:
    """961 cells, 20,000 devices, 30 % `other`: with `other` in the field .31 to .51, no warning."""
    truth = np.append(np.full(961, 0.7 / 961), 0.3)
    drawn, _ = draw_aggregate(CELLS, truth, 20_000, params, np.random.default_rng(0))
    design = design_of(value_positions(CELLS, params), params, np.arange(962))
    found = fit_field([read_aggregate(drawn, design, 1.0)], cell_laplacian(GRID, CELLS), reserved=1)
    assert np.abs(found.shares - truth).sum() / 2 < 0.1
    assert found.shares[-1] == pytest.approx(0.3, abs=0.04)
    assert "hardly tell this map" in found.doubts[0]


@pytest.mark.parametrize("graph", ["neighbours", "alike"])
def test_other_does_not_change_the_cells_prior(graph: str) -> None:
    laplacian = cell_laplacian(GRID, CELLS)
    prior = Prior.of(graph, laplacian, 962, reserved=1)  # type: ignore[arg-type]
    field = np.random.default_rng(1).normal(size=962)
    moved = field + np.append(np.zeros(961), 5.0)
    for strength in (0.01, 20.0):
        pulls = [prior.precision(strength) @ prior.centred(one) for one in (field, moved)]
        assert pulls[0][:-1] == pytest.approx(pulls[1][:-1])
        assert pulls[1][-1] - pulls[0][-1] == pytest.approx(5 * RESERVED_PRECISION)
    step = 1e-6 * np.random.default_rng(2).normal(size=962)
    pull = prior.precision(1.0) @ prior.centred(field)
    gained = (pull @ prior.centred(field + step)) - (pull @ prior.centred(field))
    assert prior.uncentred(pull) @ step == pytest.approx(gained, rel=1e-4)


def test_windows_far_from_average_other_start_alone() -> None:
    """The map that it starts from says 60 % `other`, the window 2 %."""
    rng = np.random.default_rng(3)
    design = sparse.csr_array((rng.random((200, 41)) < 0.3).astype(float))
    cells = rng.dirichlet(np.ones(40))
    near, truth = np.append(0.4 * cells, 0.6), np.append(0.98 * cells, 0.02)
    noise = BitNoise(0.9, 0.1, 0.8, 0.2)
    window = [LevelEquations(design, design @ truth, np.full(200, 1e6), noise, 1.0)]
    assert even_map(window, 41, reserved=1)[-1] == pytest.approx(0.02, abs=0.08)
    found = fit_field(window, None, Belief("alike", 0.05), near, reserved=1).shares
    assert np.abs(found - truth).sum() / 2 < 0.02
