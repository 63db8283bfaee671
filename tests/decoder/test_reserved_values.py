"""`other` and `no_data`: two reserved values, each with a free share, apart in all outputs."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from decoder.density import linear_system
from decoder.density.cells import cell_laplacian, slot_readings
from decoder.density.field_prior import RESERVED_PRECISION, Belief, Prior
from decoder.density.gaussian_field import fit_field
from decoder.density.map_series import window_maps
from decoder.density.maps import estimate_density_series
from decoder.density.space_time_field import fit_space_time
from decoder.density.space_time_model import deviations_of
from decoder.model.noise import BitNoise
from decoder.output.density_csv import density_table
from decoder.output.density_html import grid_text
from rappor_core.grid.box import RESERVED, Box
from rappor_core.grid.grid import Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.decoder import series_support as series
from tests.map_draws import value_positions
from tests.map_pages import result_of_maps, write_maps

APART = 'no_data = "no_data"\n'
GRID = Grid("square", Box(0, 0, 1, 1), (0,), 31, 31)
VALUES = [*GRID.cells(0), *RESERVED]
LN3 = math.log(3)
BY_BITS = RapporParams(32, 1, 64, TwoRoundMechanism.optimized(2 * LN3, LN3))
NOISE = BitNoise(0.9, 0.1, 0.8, 0.2)


def test_even_cells_beside_both_stay_even() -> None:
    """961 cells, 20,000 devices, 30 % `other`, 20 % `no_data`."""
    truth = np.concatenate([np.full(961, 0.5 / 961), [0.3, 0.2]])
    drawn, _ = draw_aggregate(VALUES, truth, 20_000, BY_BITS, np.random.default_rng(0))
    design = linear_system.design_of(value_positions(VALUES, BY_BITS), BY_BITS, np.arange(963))
    reading = linear_system.read_aggregate(drawn, design, 1.0)
    found = fit_field([reading], cell_laplacian(GRID, VALUES), reserved=2)
    assert np.abs(found.shares - truth).sum() / 2 < 0.1
    assert found.shares[-2:] == pytest.approx([0.3, 0.2], abs=0.05)
    assert "hardly tell this map" in found.doubts[0]


@pytest.mark.parametrize("graph", ["neighbors", "alike"])
def test_both_do_not_change_the_cells_prior(graph: str) -> None:
    prior = Prior.of(graph, cell_laplacian(GRID, VALUES), 963, 2)  # type: ignore[arg-type]
    field = np.random.default_rng(1).normal(size=963)
    moved = field + np.concatenate([np.zeros(961), [5.0, -2.0]])
    for strength in (0.01, 20.0):
        pulls = [prior.precision(strength) @ prior.centered(one) for one in (field, moved)]
        assert pulls[0][:-2] == pytest.approx(pulls[1][:-2])
        gained = pulls[1][-2:] - pulls[0][-2:]
        assert gained == pytest.approx(RESERVED_PRECISION * np.array([5.0, -2.0]))


def misfit_of(truth: np.ndarray, seed: int, reports: float = 1e4) -> linear_system.Misfit:
    """Noisy readings of 60 rows about a map (n,)."""
    rng = np.random.default_rng(seed)
    design = (rng.random((60, len(truth))) < 0.3).astype(float)
    target = design @ truth + rng.normal(size=60) * 0.02
    held = np.full(len(truth), 1 / len(truth))
    reading = linear_system.LevelEquations(
        sparse.csr_array(design), target, np.full(60, reports), NOISE, 1.0
    )
    return linear_system.Misfit([reading], held)


@pytest.mark.parametrize(
    "apart", [(0.3, 0.2), (0.6, 0.3), (0.0, 0.4), (0.5, 0.0), (0.0, 0.0), (0.55, 0.45)]
)
@pytest.mark.parametrize("seed", range(4))
def test_both_shares_are_those_of_the_least_misfit(apart: tuple[float, float], seed: int) -> None:
    cells = np.random.default_rng(seed).dirichlet(np.ones(20))
    misfit = misfit_of(linear_system.with_reserved(np.append(cells, [0, 0]), np.array(apart)), seed)
    start = np.append(cells, [0.0, 0.0])
    found, information = misfit.reserved_shares(start, 2)

    def loss(shares: np.ndarray) -> float:
        return misfit.at(linear_system.with_reserved(start, np.asarray(shares)))[0]

    most = 1 - linear_system.MIN_RESERVED
    best = minimize(
        loss, [0.3, 0.3], method="SLSQP", bounds=[(linear_system.MIN_RESERVED, most)] * 2,
        constraints={"type": "ineq", "fun": lambda x: most - x.sum()}, options={"ftol": 1e-12},
    )  # fmt: skip
    assert loss(found) <= best.fun + 1e-6 * abs(best.fun)
    assert found == pytest.approx(best.x, abs=1e-3)
    assert found.min() >= linear_system.MIN_RESERVED * 0.999
    assert found.sum() <= most + 1e-12
    step = 1e-3 * np.array([1.0, -0.5])
    curvature = loss(found + step) + loss(found - step) - 2 * loss(found)
    assert curvature == pytest.approx(step @ information @ step, rel=1e-3)


def test_evidence_of_even_cells_counts_both() -> None:
    """Laplace's approximation, its curvature by differences of shares."""
    misfit = misfit_of(np.append(np.full(20, 0.02), [0.4, 0.2]), 3)
    even = np.append(np.full(20, 0.0225), [0.35, 0.2])
    _, information = misfit.reserved_shares(even, 2)

    def apart(logs: np.ndarray) -> np.ndarray:
        weights = np.append(np.ones(20), np.exp(logs))
        return weights[-2:] / weights.sum()

    logs = np.log(even[-2:] / even[0])
    slopes = np.stack(
        [(apart(logs + h) - apart(logs - h)) / 2e-6 for h in 1e-6 * np.eye(2)], axis=1
    )
    curvature = slopes.T @ information @ slopes + RESERVED_PRECISION * np.eye(2)
    height = np.log(RESERVED_PRECISION) - 0.5 * np.linalg.slogdet(curvature)[1]
    expected = height - misfit.at(even)[0] - 0.5 * RESERVED_PRECISION * (logs @ logs)
    assert linear_system.even_evidence(misfit, even, 2) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "keys",
    [series.WINDOW, pytest.param(series.SYMBOLS, marks=pytest.mark.long)],
    ids=["window", "symbols"],
)
def test_no_window_is_lost_where_both_move(keys: str) -> None:
    """`other` from .1 to .6 while `no_data` goes from .6 to .1."""
    rng, (metric, places) = np.random.default_rng(4), series.declared(keys + APART)
    moving = np.linspace(0.1, 0.6, 8)
    values = series.people(places, 30_000, moving / (1 - moving[::-1]), rng, moving[::-1])
    windows, true = series.windows_of(metric, places, values, rng), series.truths(values, places)
    assert true[0][-2:] == pytest.approx([0.1, 0.6], abs=0.02)
    maps = list(window_maps(windows, places, None))
    for one, t in zip(maps, true, strict=True):
        assert np.abs(one.shares[-2:] - t[-2:]).max() < 0.05
        assert series.cell_distance(one.shares, t, 2) < 0.27
        assert one.check.agrees
        assert one.source == "series"
        assert len(one.changes.p_adjusted) == 144
        assert one.changes.p_adjusted.min() > 0.05


def test_deviations_are_at_right_angles_to_both() -> None:
    rng, (metric, places) = np.random.default_rng(6), series.declared(series.WINDOW + APART, side=6)
    values = series.people(places, 10_000, np.full(3, 0.3), rng, np.full(3, 0.2))
    readings = [
        slot_readings(one, places, None) for one in series.windows_of(metric, places, values, rng)
    ]
    cells, apart = np.full(36, 1 / 36), np.tile([0.24, 0.2], (3, 1))
    found = deviations_of(readings, cells, apart)
    design = readings[0][0].design.toarray()
    roots = [np.sqrt(one[0].precision(np.append(cells * 0.56, apart[0]))) for one in readings]
    mean = np.sqrt(np.mean(np.square(roots), axis=0))
    toward = mean[:, None] * (design[:, 36:] - (design[:, :36] @ cells)[:, None])
    assert toward.T @ found.response == pytest.approx(np.zeros((2, 36)), abs=1e-6)
    assert toward.T @ found.residuals == pytest.approx(np.zeros((2, 3)), abs=1e-6)
    assert found.freedom == readings[0][0].freedom - 2


def test_the_check_sees_swapped_reserved_values() -> None:
    rng, (metric, places) = np.random.default_rng(7), series.declared(series.WINDOW + APART)
    values = series.people(places, 30_000, np.full(1, 0.3), rng, np.full(1, 0.2))
    readings = slot_readings(series.windows_of(metric, places, values, rng)[0], places, None)
    right = np.maximum(series.truths(values, places)[0], 1e-9)
    wrong = right.copy()
    wrong[-2:] = right[:-3:-1]
    assert linear_system.check_map(readings, right, 2).agrees
    assert linear_system.check_map(readings, right, 2).freedom <= linear_system.BLOCKS + 2
    assert not linear_system.check_map(readings, wrong, 2).agrees


@pytest.fixture(scope="module")
def maps() -> list:
    rng, (metric, places) = np.random.default_rng(9), series.declared(series.WINDOW + APART, side=6)
    values = series.people(places, 30_000, np.full(2, 0.4), rng, np.full(2, 0.3))
    windows = series.windows_of(metric, places, values, rng)
    return list(estimate_density_series(windows))  # cells and reserved values from the definition


def test_maps_tell_both_and_the_box_without_them(maps: list) -> None:  # type: ignore[type-arg]
    one = maps[0]
    assert one.places.reserved == RESERVED == one.cells[-2:]
    assert (one.num_cells, len(one.places.outlines())) == (36, 36)
    assert one.reserved_shares["other"] == pytest.approx(0.28, abs=0.03)
    assert one.reserved_shares["no_data"] == pytest.approx(0.3, abs=0.03)
    assert one.in_box == pytest.approx(one.shares[:36].sum())
    assert one.estimate[-2:] == pytest.approx([0.28, 0.3], abs=0.04)
    assert ((one.low[-2:] > 0.2) & (one.high[-2:] < 0.4)).all()
    some = one.showing([one.cells[3]])
    assert some.cells == (one.cells[3], "other", "no_data")
    assert some.num_cells == 1
    assert some.in_box == one.in_box
    assert "36 cells" in grid_text(one)
    printed, *_ = result_of_maps(maps).printed
    in_box = {row["cell"]: row["in_box"] for row in printed.records()}
    assert in_box.pop("other") is in_box.pop("no_data") is None
    assert sum(in_box.values()) == pytest.approx(1)


def test_files_hold_both_and_geojson_cells_alone(maps: list, tmp_path: Path) -> None:  # type: ignore[type-arg]
    rows = density_table(maps).to_pylist()
    assert [row["cell"] for row in rows[36:38]] == ["other", "no_data"]
    for row in (*rows[36:38], *rows[74:76]):
        assert row["latitude"] is row["change"] is row["changed"] is None
        assert row["estimate"] is not None
    assert rows[35]["latitude"] is not None
    write_maps(maps, tmp_path)
    features = json.loads((tmp_path / "density.geojson").read_text())["features"]
    assert [one["properties"]["cell"] for one in features] == list(maps[0].cells[:36])
    with (tmp_path / "density.csv").open() as file:
        assert [row["cell"] for row in csv.DictReader(file)] == [*maps[0].cells] * 2
    shown = [one.showing([maps[0].cells[0]]) for one in maps]
    named = [row["cell"] for row in density_table(shown).to_pylist()]
    assert named == [maps[0].cells[0], "other", "no_data", "unlisted"] * 2


def test_windows_weigh_by_those_in_a_cell() -> None:
    """`no_data` goes from .05 to .9: deviations are about a mean of the answers that are cells."""
    rng = np.random.default_rng(11)
    metric, places = series.declared(series.WINDOW + APART, side=6)
    values = series.people(places, 60_000, np.full(4, 0.1), rng, np.array([0.05, 0.3, 0.6, 0.9]))
    windows = series.windows_of(metric, places, values, rng)
    readings = [slot_readings(one, places, None, keep_empty=True) for one in windows]
    whole = fit_field(readings[0], places.laplacian, Belief("neighbors", 0.05), reserved=2)
    precision = Prior.of("neighbors", places.laplacian, len(whole.shares), 2).precision(0.05)
    field = fit_space_time(readings, whole.shares, precision, places.laplacian, 0.0, reserved=2)
    cells = np.log(field.shares[:, :36] / field.shares[:, :36].sum(axis=1, keepdims=True))
    shared = np.log(whole.shares[:36] / whole.shares[:36].sum())
    inside = 1 - field.shares[:, 36:].sum(axis=1)
    spread = [np.std(weights @ cells / weights.sum() - shared) for weights in (inside, np.ones(4))]
    assert field.strengths.variance > 1e-5
    assert not len(field.changes.cells)
    assert spread[0] < 0.1 * spread[1]
