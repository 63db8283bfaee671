"""How far a map will be off, and which mode is named: predicted, checked in other ways."""

from datetime import date

import numpy as np
import pytest

from decoder.density.cells import Places, places_of
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import read_aggregate
from decoder.density.predicted_error import (
    Mode,
    Reference,
    effective_noise,
    modes,
    noise_of,
    predict,
    predicted_error,
)
from decoder.errors import DecodeError
from metric_design.map_findings import map_findings
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from simulations.location import true_shares
from simulations.populations.draws import draw_aggregate
from tests.metric_texts import declaration

HEAD = declaration(
    "places", "location", expires="2028-12-31", grid="square", box=[0, 0, 8, 8], rows=10,
    columns=10, levels=[0], period="month",
)  # fmt: skip
SYMBOLS = (
    'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 16\n'
    "epsilon_infinity = 1.0\nepsilon_one = 0.9\n"
)
TODAY = date(2026, 12, 31)


def told(keys: str, population: int = 20_000, **options: int) -> str:
    (finding,) = map_findings(parse_metrics(HEAD + keys), population, TODAY, **options)
    assert (finding.level, finding.metric) == ("note", "places")
    return finding.message


def places() -> Places:
    (metric,) = parse_metrics(HEAD + SYMBOLS).parts("places")
    assert metric.location is not None
    return places_of([metric.location])


@pytest.mark.parametrize("periods", [1, 2, 26])
def test_keys_of_modes_declare_what_was_predicted(periods: int) -> None:
    for mode in modes(4.0, periods, 64):
        (metric,) = parse_metrics(HEAD + mode.keys).parts("places")
        assert metric.params == mode.params
        assert metric.location is not None
        assert max(metric.location.window, 1) == mode.turns
        assert metric.lifetime_epsilon == pytest.approx(4.0, rel=1e-3)
        if mode.places is not None:
            assert metric.max_memoized_values == mode.places + 1


def test_modes_that_cannot_spend_are_left_out() -> None:
    assert modes(1e-6, 26, 64) == []
    assert {mode.name for mode in modes(18.0, 26, 64)} >= {"memo, 3 symbols"}
    assert "window" not in {mode.name for mode in modes(4.0, 2_000, 64)}
    assert "memo, filter, cap 2" not in {mode.name for mode in modes(4.0, 26, 64, no_data=True)}
    with pytest.raises(DecodeError, match="0 periods"):
        modes(4.0, 0, 64)
    with pytest.raises(DecodeError, match="1 cells"):
        predicted_error(modes(4.0, 26, 64)[0].params, 1e5, 1)


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
        assert noise_of(params) == pytest.approx(1 / information)
    own_bits = RapporParams(962, 1, 1, TwoRoundMechanism.optimized(1.0, 0.9), "one_hot")
    assert predicted_error(own_bits, 1e9, 961).total_variation < 0.02


@pytest.mark.parametrize(("cohorts", "bits"), [(16, 2), (64, 2), (200, 2), (16, 8)])
def test_cell_noise_is_of_the_linear_system(cohorts: int, bits: int) -> None:
    """The error of the exact posterior mean, of random bits and 400 cells, within 4 %."""
    cells, own = 400, 2e-6
    rng = np.random.default_rng(1)
    reference = Reference(np.full(cells, 1 / cells), np.geomspace(0.5, 20, cells))
    prior = np.linalg.qr(rng.normal(size=(cells, cells)))[0]
    prior = cells**2 * (prior * reference.precisions) @ prior.T  # of shares, not of log shares
    design = np.zeros((cohorts * bits, cells))
    for cohort in range(cohorts):
        design[cohort * bits + rng.integers(bits, size=cells), np.arange(cells)] = 1
    design -= 1 / bits
    weight = 1 / (own * cohorts * (1 - 1 / bits))  # each cell by itself has variance `own`
    exact = np.trace(np.linalg.inv(prior + weight * design.T @ design))
    noise = effective_noise(reference, own, cohorts * (bits - 1))
    assert reference.squared(noise) == pytest.approx(exact, rel=0.04)
    assert reference.squared(own) < 0.8 * exact  # without what others throw on it


def distance(mode: Mode, where: Places, truth: np.ndarray, devices: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    drawn, _ = draw_aggregate(list(where.finest), truth, devices // mode.turns, mode.params, rng)
    reading = read_aggregate(drawn, where.design(0, mode.params), 1.0)
    found = fit_field([reading], where.laplacian, reserved=1).shares[:-1]
    return float(np.abs(found / found.sum() - truth[:-1] / truth[:-1].sum()).sum() / 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("devices", "periods", "budget", "least"),
    [(20_000, 12, 2.0, 1), (100_000, 12, 2.0, 3)],
)
def test_the_named_mode_is_nearly_best(
    devices: int, periods: int, budget: float, least: int
) -> None:
    """Means of two drawn cities of 100 cells."""
    where = places()
    choices = [
        one.mode for one in predict(modes(budget, periods, devices // 1_250), devices, 100, least)
    ]
    cities = [true_shares(where, 1, np.random.default_rng(seed)) for seed in range(2)]
    errors = [
        np.mean([distance(mode, where, city, devices, s) for s, city in enumerate(cities)])
        for mode in choices
    ]
    assert errors[0] <= 1.1 * min(errors)
    assert errors[0] < 0.9 * max(errors)  # it matters which


WINDOW = """mode = "window"
window = 24
max_reports = 1
num_bits = 32
num_cohorts = {cohorts}
epsilon = 1.0
"""


def test_check_names_and_declares_the_best_mode() -> None:
    """Of those that hide when, too: memoized answers stand alongside them, and are never named."""
    said = told(SYMBOLS, population=100_000)
    assert "a map of one month from 100,000 devices, 100 cells" in said
    assert "for maps of 24 months with epsilon" in said
    assert (
        "the best mode that hides when, too, is window (with 64 cohorts: memo, 2 symbols 0." in said
    )
    assert 'window = 24, turn = "fresh", hold = 4, max_reports = 1, num_bits = 32' in said
    poor = WINDOW.format(cohorts=2).replace("num_bits = 32", "num_bits = 4")
    assert "too, is window" in told(poor, population=100_000)
    enough = told(WINDOW.format(cohorts=16), population=100_000)
    assert "no mode that hides when, too, is better by more than a tenth (with 64" in enough
