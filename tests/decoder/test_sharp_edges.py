"""A map with one sharp edge, which the prior that suits the rest of it blurs."""

import numpy as np
import pytest

from decoder.density import map_series
from decoder.density.cells import places_of
from decoder.density.field_prior import Belief
from decoder.density.maps import DensityOptions, estimate_density
from tests.map_draws import cell_distance, draw_windows, square_metric, true_shares

SIDE = 24
KEYS = ('period = "week"\nnum_cohorts = 48\nmode = "window"\nwindow = 3\nmax_reports = 1\n'
        "epsilon = 6.0\nnum_bits = 32\n")  # fmt: skip


@pytest.mark.long
@pytest.mark.statistical
def test_a_weaker_prior_is_taken_before_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    """.07 off; the projection is .2 off. A prior that was given stays."""
    metric, rng = square_metric(SIDE, KEYS), np.random.default_rng(0)
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
    assert found.belief == Belief("neighbours", 1.0)
    off = cell_distance(found.shares, true)
    given = DensityOptions(belief=Belief("neighbours", 2.0))
    projected = estimate_density(window, given, places)
    assert projected.source == "projection"
    assert off < 0.1 < cell_distance(projected.shares, true)
    monkeypatch.setattr(map_series, "WEAKER", 0)
    assert estimate_density(window, places=places).source == "projection"
