"""Do intervals of single cells hold the truth, on a thousand cells, in every mode?"""

from dataclasses import replace

import numpy as np
import pytest

from decoder.density.cells import places_of
from decoder.density.maps import cell_estimates
from decoder.inference.multiple_testing import decide
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import reserved_values
from simulations.location import true_shares
from simulations.populations.draws import draw_aggregate
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
    assert metric.location is not None
    places = places_of([metric.location])
    held, narrow = [], []
    for seed in range(MAPS_CROWDED):
        rng = np.random.default_rng(seed)
        truth = true_shares(places, seed, rng)
        found, _ = draw_aggregate(list(places.finest), truth, 100_000, metric.params, rng)
        found = replace(found, definition=metric.to_dict(), params_id=metric.params_id)
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
