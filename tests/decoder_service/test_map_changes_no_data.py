"""Maps of change of a metric that tells `no_data` from `other`."""

import json
from typing import Any

import numpy as np
import pytest

from decoder.density.maps import Density, estimate_density_series
from decoder.output.density_html import map_data
from decoder.output.map_changes import changes_view, map_changes
from tests.decoder.series_support import WINDOW, declared, people, windows_of

APART = 'no_data = "no_data"\n'


def mapped(keys: str) -> list[Density]:
    """Two months of 36 cells: `no_data`, where it is declared, goes from .1 to .4."""
    rng, (metric, places) = np.random.default_rng(3), declared(keys, side=6)
    missing = np.array([0.1, 0.4]) if APART in keys else None
    values = people(places, 30_000, np.full(2, 0.3), rng, missing)
    return list(estimate_density_series(windows_of(metric, places, values, rng)))


def shown(maps: list[Density]) -> dict[str, Any]:
    changes = map_changes(maps)
    assert changes is not None
    stored: dict[str, Any] = json.loads(json.dumps(map_data(maps) | changes))
    return stored


def test_changes_of_both_are_told_not_drawn() -> None:
    maps = mapped(WINDOW + APART)
    data, (_, last) = shown(maps), maps
    (one,) = data["maps"]
    assert last.since_first is not None
    assert [one["other"], one["no_data"]] == pytest.approx(last.since_first.difference[-2:])
    assert one["no_data"] == pytest.approx(0.3, abs=0.04)
    assert one["other"] == pytest.approx(0.3 * (0.6 - 0.9), abs=0.05)
    assert {len(one[name]) for name in ("share", "low", "high", "shade")} == {36}
    assert max(one["detected"], default=0) < 36
    assert data["top"] < 0.2  # the largest change of a cell, not of `no_data`
    assert changes_view(data)["num_cells"] == 36


def test_one_reserved_value_is_one_row() -> None:
    assert "no_data" not in shown(mapped(WINDOW))["maps"][0]
