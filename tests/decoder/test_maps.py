"""From noisy cells to maps: projection, the field, and which cells touch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from decoder.density import gaussian_field as field
from decoder.density.cells import cell_laplacian
from decoder.density.field_prior import Belief, Prior, softmax
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import (
    LevelEquations,
    Misfit,
    design_of,
    even_map,
    read_aggregate,
)
from decoder.model.noise import BitNoise
from decoder.numerics.optimization import descend, project_simplex
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.map_draws import value_positions

vectors = st.lists(st.floats(-2, 2), min_size=1, max_size=12).map(np.array)


@given(vectors, st.floats(0.1, 3))
def test_the_projection_is_the_nearest_point(values: np.ndarray, total: float) -> None:
    """Optimality: what is positive was lowered by one amount, what is zero by no more."""
    found = project_simplex(values, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    taken = values - found
    amount = taken[found > 0].mean()
    assert taken[found > 0] == pytest.approx(amount)
    assert (taken[found == 0] <= amount + 1e-9).all()


NOISE = BitNoise(0.9, 0.1, 0.8, 0.2)


def reading(target: np.ndarray, reports: float) -> LevelEquations:
    size = len(target)
    return LevelEquations(
        sparse.eye_array(size, format="csr"), target, np.full(size, reports), NOISE, 1.0
    )


def chain(size: int) -> sparse.csr_array:
    steps = sparse.diags_array([np.ones(size - 1), np.ones(size - 1)], offsets=[-1, 1])
    return (sparse.diags_array(np.asarray(steps.sum(axis=1))) - steps).tocsr()


def test_evidence_smooths_only_what_is_smooth() -> None:
    rng = np.random.default_rng(7)
    at = np.arange(120)
    smooth = softmax(2 * np.sin(at / 15))
    rough = rng.permutation(softmax(rng.normal(0, 2.5, size=120)))
    for truth, graph in ((smooth, "neighbors"), (rough, "alike")):
        noisy = truth + rng.normal(0, 0.006, size=120)
        error = np.sqrt(NOISE.mechanism_variance(np.array([0.01]), 1.0))[0]
        found = fit_field([reading(noisy, (error / 0.006) ** 2)], chain(120))
        flat = np.abs(project_simplex(noisy) - truth).sum()
        assert found.belief.graph == graph
        assert np.abs(found.shares - truth).sum() < flat
        assert found.shares.sum() == pytest.approx(1)
        assert found.shares.min() > 0


def test_maps_that_noise_may_make_say_so() -> None:
    """Nothing but noise on an even map gains less than a spike; two hills that show gain more."""
    truth, rng = np.full(120, 1 / 120), np.random.default_rng(9)
    error = 0.004
    one_report = np.sqrt(NOISE.mechanism_variance(np.array([0.01]), 1.0))[0]
    noisy = truth + rng.normal(0, error, size=120)
    vague = fit_field([reading(noisy, (one_report / error) ** 2)], chain(120))
    assert vague.gain is not None
    assert vague.gain < np.log(120)
    assert "hardly tell this map" in vague.doubts[0]
    hills = softmax(3 * np.sin(np.arange(120) / 15))
    clear = fit_field([reading(hills + noisy - truth, (one_report / error) ** 2)], chain(120))
    assert clear.gain is not None
    assert clear.gain > np.log(120)
    assert not clear.doubts
    assert not fit_field([reading(noisy, 1e3)], chain(120), Belief("alike", 1.0)).doubts


def test_weakly_seen_crowds_are_not_made_even() -> None:
    """The map is the mean by evidence, not the even one; where nothing shows it is next to even."""
    even, noise = np.full(120, 1 / 120), np.random.default_rng(9).normal(0, 0.004, size=120)
    one_report = np.sqrt(NOISE.mechanism_variance(np.array([0.01]), 1.0))[0]
    weak = softmax(0.4 * np.sin(np.arange(120) / 15))
    for truth, most in ((weak, 0.06), (even, 0.02)):  # an even map of the former is .118 off
        found = fit_field([reading(truth + noise, (one_report / 0.004) ** 2)], chain(120))
        assert found.doubts
        assert np.abs(found.shares - truth).sum() / 2 < most


def test_a_descent_finds_what_scipy_finds() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(12, 12))
    matrix, aim = root @ root.T + np.eye(12), rng.normal(size=12)

    def bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
        away = x - aim
        return float(away @ matrix @ away / 2 + (away**4).sum()), matrix @ away + 4 * away**3

    found, value, steps = descend(bowl, np.zeros(12), lambda slope: slope / 10, 1e-12, 200)
    assert found == pytest.approx(minimize(bowl, np.zeros(12), jac=True).x, abs=1e-4)
    assert value == pytest.approx(0, abs=1e-9)
    assert 1 < steps < 200
    assert descend(bowl, aim, lambda slope: slope, 1e-12, 200)[2] == 0


@pytest.mark.parametrize(
    ("kind", "levels", "shape", "degrees"),
    [
        ("square", (0,), (4, 5), {2: 4, 3: 10, 4: 6}),
        ("quadkey", (12,), (0, 0), None),
        ("h3", (6,), (0, 0), None),
    ],
)
def test_neighbors_share_an_edge(kind, levels, shape, degrees) -> None:  # type: ignore[no-untyped-def]
    grid = Grid(kind, Box(40.5, -74.3, 40.95, -73.65), levels, *shape)
    cells = [*grid.cells(levels[0]), OTHER]
    laplacian = cell_laplacian(grid, cells)
    assert abs(laplacian.sum(axis=0)).max() == 0
    degree = laplacian.diagonal()
    assert degree[-1] == 0
    assert degree[:-1].max() == (6 if kind == "h3" else 4)
    if degrees:
        numbers, counts = np.unique(degree[:-1], return_counts=True)
        assert dict(zip(numbers.astype(int).tolist(), counts.tolist(), strict=True)) == degrees
    if kind == "h3":
        import h3

        inner = cells[int(np.argmax(degree))]
        near = np.flatnonzero(laplacian[[cells.index(inner)]].toarray()[0] < 0)
        assert {cells[i] for i in near} == set(h3.grid_ring(inner, 1))


def test_smoothers_find_crowds_that_flat_starts_lose() -> None:
    """Two hills on 48 x 48 cells, of 40,000 reports of one of three symbols: one draw, fixed."""
    grid = Grid("square", Box(0, 0, 1, 1), (0,), 48, 48)
    cells = [*grid.cells(0), OTHER]
    at = np.array([[int(part) for part in cell.split("-")[1:]] for cell in cells[:-1]])
    hills = sum(np.exp(-((at - middle) ** 2).sum(axis=1) / 8) for middle in ((16, 20), (24, 17)))
    truth, laplacian = np.append(0.98 * hills / hills.sum(), 0.02), cell_laplacian(grid, cells)
    params = RapporParams(3, 1, 64, TwoRoundMechanism.symbols(3, 1.0, 0.5), "symbol")
    drawn, _ = draw_aggregate(cells, truth, 40_000, params, np.random.default_rng(2))
    design = design_of(value_positions(cells, params), params, np.arange(len(cells)))
    readings = [read_aggregate(drawn, design, 1.0)]
    even = even_map(readings, 2305, reserved=1)
    prior = Prior.of("neighbors", laplacian, 2305, reserved=1)
    lost, found = next(field._walks(Misfit(readings, even), "neighbors", prior, even)[0])
    assert np.abs(found.shares - truth).sum() / 2 < 0.75
    assert np.abs(lost.shares - truth).sum() / 2 > 0.9
    assert found.loss < lost.loss - 1
