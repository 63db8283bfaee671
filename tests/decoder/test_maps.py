"""From noisy cells to maps: projection, the field, and which cells touch."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from decoder.density import gaussian_field as field
from decoder.density import linear_system
from decoder.density.cells import cell_laplacian
from decoder.density.field_prior import Belief, Prior, softmax
from decoder.density.gaussian_field import fit_field
from decoder.model.noise import BitNoise
from decoder.numerics.optimization import descend, project_simplex
from metric_design import map_forecast as prediction
from metric_design.map_findings import map_findings
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.map_draws import value_positions
from tests.metric_texts import declaration

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


def reading(target: np.ndarray, reports: float) -> linear_system.LevelEquations:
    size = len(target)
    return linear_system.LevelEquations(
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
    design = linear_system.design_of(value_positions(cells, params), params, np.arange(len(cells)))
    readings = [linear_system.read_aggregate(drawn, design, 1.0)]
    even = linear_system.even_map(readings, 2305, reserved=1)
    prior = Prior.of("neighbors", laplacian, 2305, reserved=1)
    lost, found = next(
        field._walks(linear_system.Misfit(readings, even), "neighbors", prior, even)[0]
    )
    assert np.abs(found.shares - truth).sum() / 2 < 0.75
    assert np.abs(lost.shares - truth).sum() / 2 > 0.9
    assert found.loss < lost.loss - 1


HEAD = declaration(
    "places", "location", expires="2028-12-31", grid="square", box=[0, 0, 8, 8], rows=10,
    columns=10, levels=[0], period="month",
)  # fmt: skip
SYMBOLS = (
    'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 16\n'
    "epsilon_infinity = 1.0\nepsilon_one = 0.9\n"
)
TODAY = date(2026, 12, 31)


def result(keys: str, population: int = 20_000, **options: int) -> str:
    (finding,) = map_findings(parse_metrics(HEAD + keys), population, TODAY, **options)
    assert (finding.level, finding.metric) == ("note", "places")
    return finding.message


@pytest.mark.parametrize("periods", [1, 2, 26])
def test_keys_of_modes_declare_what_was_predicted(periods: int) -> None:
    for mode in prediction.modes(4.0, periods, 64):
        (metric,) = parse_metrics(HEAD + mode.keys).parts("places")
        assert metric.params == mode.params
        assert max(metric.location.window, 1) == mode.turns
        assert metric.lifetime_epsilon == pytest.approx(4.0, rel=1e-3)
        if mode.places is not None:
            assert metric.max_memoized_values == mode.places + 1


def test_own_bit_variances_match_many_reports() -> None:
    """By the information of the cell's bits, all other cells known: enumerated, k = 4."""
    for params in (
        RapporParams(4, 1, 1, TwoRoundMechanism.optimized(2.0, 1.8)),
        RapporParams(4, 1, 1, TwoRoundMechanism.symbols(4, 2.0, 1.8), "symbol"),
    ):
        k, gap = 4, params.q_star - params.p_star
        shown = params.p_star + gap / k
        bits = np.zeros(k)
        bits[0] = 1
        direction = gap * (bits - 1 / k)  # of the chances of a report, as its share grows
        covariance = np.diag(np.full(k, shown * (1 - shown)))
        if params.scheme.symbols:
            covariance = np.diag(np.full(k, shown)) - shown**2
        information = direction @ np.linalg.pinv(covariance) @ direction
        assert prediction.noise_of(params) == pytest.approx(1 / information)
    own_bits = RapporParams(962, 1, 1, TwoRoundMechanism.optimized(1.0, 0.9), "one_hot")
    assert prediction.predicted_error(own_bits, 1e9, 961).total_variation < 0.02


@pytest.mark.parametrize(("cohorts", "bits"), [(16, 2), (64, 2), (200, 2), (16, 8)])
def test_cell_noise_is_of_the_linear_system(cohorts: int, bits: int) -> None:
    """The error of the exact posterior mean, of random bits and 400 cells, within 4 %."""
    cells, own = 400, 2e-6
    rng = np.random.default_rng(1)
    reference = prediction.Reference(np.full(cells, 1 / cells), np.geomspace(0.5, 20, cells))
    prior = np.linalg.qr(rng.normal(size=(cells, cells)))[0]
    prior = cells**2 * (prior * reference.precisions) @ prior.T  # of shares, not of log shares
    design = np.zeros((cohorts * bits, cells))
    for cohort in range(cohorts):
        design[cohort * bits + rng.integers(bits, size=cells), np.arange(cells)] = 1
    design -= 1 / bits
    weight = 1 / (own * cohorts * (1 - 1 / bits))  # each cell alone has variance `own`
    exact = np.trace(np.linalg.inv(prior + weight * design.T @ design))
    noise = prediction.effective_noise(reference, own, cohorts * (bits - 1))
    assert reference.squared(noise) == pytest.approx(exact, rel=0.04)
    assert reference.squared(own) < 0.8 * exact  # without what others throw on it


WINDOW = """mode = "window"
window = 24
max_reports = 1
num_bits = 32
num_cohorts = {cohorts}
epsilon = 1.0
"""


def test_check_names_and_declares_the_best_mode() -> None:
    said = result(SYMBOLS, population=100_000)
    assert "a map of one month from 100,000 devices, 100 cells" in said
    assert "for maps of 24 months with epsilon" in said
    best = "the best mode that also hides the times is window (with 64 cohorts: memo, 2 symbols 0."
    assert best in said
    assert 'window = 24, turn = "fresh", hold = 4, max_reports = 1, num_bits = 32' in said
    poor = WINDOW.format(cohorts=2).replace("num_bits = 32", "num_bits = 4")
    assert "hides the times is window" in result(poor, population=100_000)
    enough = result(WINDOW.format(cohorts=16), population=100_000)
    assert "no mode that also hides the times is better by more than a tenth (with 64" in enough
