"""Do intervals of single cells hold the truth, on a thousand cells, in every mode?"""

import numpy as np
import pytest

from decoder.density import map_series
from decoder.density.cells import places_of
from decoder.density.field_prior import Belief
from decoder.density.maps import Density, cell_estimates, estimate_density
from decoder.inference.multiple_testing import decide
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from decoder.results.selective_intervals import MIN_LOW
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import reserved_values
from simulations.location import true_shares as shares_of_a_city
from simulations.populations.draws import declared_aggregate, draw_aggregate
from tests.map_draws import cell_distance, draw_windows, square_metric, true_shares
from tests.metric_texts import declaration

USUAL_PLACE = declaration(
    "usual_place", "location", grid="quadkey", box=[42.0, -72.8, 42.5, -72.4], levels=[13],
    period="week", encoding="symbol", num_symbols=2, num_cohorts=64, mode="memo",
    epsilon_infinity=2.0, epsilon_one=1.8,
)  # fmt: skip
MAPS_CROWDED = 8
MIN_HEAVY = 0.90  # of about 90 cells


@pytest.mark.long
@pytest.mark.statistical
def test_heavy_cells_are_in_their_intervals() -> None:
    """64 free numbers for 171 cells. False alarms below 1 in 100; intervals of half width fail."""
    (metric,) = parse_metrics(USUAL_PLACE).parts("usual_place")
    places = places_of([metric.location])
    held, narrow = [], []
    for seed in range(MAPS_CROWDED):
        rng = np.random.default_rng(seed)
        truth = shares_of_a_city(places, seed, rng)
        found, _ = draw_aggregate(list(places.finest), truth, 100_000, metric.params, rng)
        found = declared_aggregate(found, metric, None, None)
        candidates = places.candidates(0, metric.params)
        decoding = decode(found, candidates, DecodeOptions(repeats=1.0))
        cells, table = cell_estimates(found, candidates, decoding), decoding.candidates
        middle, half = (cells.low + cells.high) / 2, (cells.high - cells.low) / 4
        picked = np.union1d(np.argsort(-truth)[:5], np.flatnonzero(table.detected))
        held += ((cells.low <= truth) & (truth <= cells.high))[picked].tolist()
        narrow += (np.abs(truth - middle) <= half)[picked].tolist()
    assert len(held) > 60
    assert np.mean(held) > MIN_HEAVY
    assert np.mean(narrow) < MIN_HEAVY


@pytest.mark.parametrize(
    "no_data", [pytest.param("", marks=pytest.mark.long), 'no_data = "no_data"\n']
)
def test_reserved_values_are_not_tested_with_cells(no_data: str) -> None:
    """Where all are elsewhere, `bh` with `other` in the list would name a cell twice as often."""
    metric = parse_metrics(USUAL_PLACE + no_data).metrics["usual_place/day/13"]
    places = places_of([metric.location], reserved_values(metric.no_data))
    cells, reserved = len(places.shown_cells), len(places.reserved)
    truth = np.append(np.zeros(cells), np.full(reserved, 1 / reserved))
    rng = np.random.default_rng(4)
    counts, _ = draw_aggregate(list(places.finest), truth, 20_000, metric.params, rng)
    candidates = places.candidates(0, metric.params)
    table = decode(counts, candidates, DecodeOptions(repeats=1.0, correction="bh")).candidates
    own = decide(table.p_value[:cells], table.local_fdr[:cells], "bh", 0.05)
    assert reserved == 1 + bool(no_data)
    assert table.p_adjusted[:cells].tolist() == own.adjusted.tolist()
    assert table.p_adjusted[cells:].tolist() == table.p_value[cells:].tolist()
    assert table.detected[cells:].all()


MODE = ('period = "week"\nmode = "memo"\nencoding = "symbol"\nnum_symbols = 2\n'
        "epsilon_infinity = 4.0\nepsilon_one = 2.4\nnum_cohorts = ")  # fmt: skip
SIDE = 24
EDGE = ('period = "week"\nnum_cohorts = 48\nmode = "window"\nwindow = 3\nmax_reports = 1\n'
        "epsilon = 6.0\nnum_bits = 32\n")  # fmt: skip


def towers(side: int, cohorts: int, seed: int) -> tuple[Density, np.ndarray, np.ndarray]:
    """A map of three towers of .18 each, which the towers are, and the true shares."""
    rng = np.random.default_rng([side, cohorts, seed])
    metric = square_metric(side, f"{MODE}{cohorts}\n")
    places, size = places_of([metric.location]), side * side
    tall = rng.choice(size, 3, replace=False)
    shares = np.full(size, 0.36 / size)
    shares[tall] += 0.18
    values = rng.choice(size + 1, (100_000, 1), p=np.append(shares, 1 - shares.sum()))
    (window,) = draw_windows(metric, places, values, rng)
    return estimate_density(window, None, places), tall, true_shares(values, size + 1)[0]


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
def test_a_weaker_prior_is_taken_before_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    """.07 off; the projection is .2 off."""
    metric, rng = square_metric(SIDE, EDGE), np.random.default_rng(0)
    places, size = places_of([metric.location]), SIDE**2
    weights = np.where(np.arange(size) // SIDE < SIDE // 3, 25.0, 1.0)
    values = rng.choice(size, (150_000, 1), p=weights / weights.sum())
    values[rng.random(values.shape) < 0.1] = size
    (window,), true = draw_windows(metric, places, values, rng), true_shares(values, size + 1)[0]
    found = estimate_density(window, places=places)
    assert found.source == "field"
    assert found.check.agrees
    assert any("of strength 1 was taken" in text for text in found.warnings)
    assert found.belief == Belief("neighbors", 1.0)
    off = cell_distance(found.shares, true)
    monkeypatch.setattr(map_series, "WEAKER", 0)
    projected = estimate_density(window, places=places)
    assert projected.source == "projection"
    assert off < 0.1 < cell_distance(projected.shares, true)
