"""Maps of change of a metric that tells `no_data` from `other`."""

import json
from pathlib import Path

import numpy as np
import pytest

from decoder.density.maps import Density, estimate_density_series
from decoder.reports.density_csv import write_density_files
from decoder.reports.density_html import map_data
from decoder.service.errors import RequestError
from decoder.service.pages.map_changes import ResultMaps, changes_data, changes_view, read_maps
from tests.decoder.series_support import WINDOW, declared, people, windows_of

APART = 'no_data = "no_data"\n'


def mapped(keys: str) -> list[Density]:
    """Two months of 36 cells: `no_data`, where it is declared, goes from .1 to .4."""
    rng, (metric, places) = np.random.default_rng(3), declared(keys, side=6)
    missing = np.array([0.1, 0.4]) if APART in keys else None
    values = people(places, 30_000, np.full(2, 0.3), rng, missing)
    return list(estimate_density_series(windows_of(metric, places, values, rng)))


def stored(maps: list[Density], folder: Path) -> ResultMaps:
    write_density_files(maps, folder)
    drawn = json.dumps(map_data(maps)).encode()
    return read_maps(maps[0].metric.params_id, drawn, (folder / "density.parquet").read_bytes())


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Density], ResultMaps]:
    maps = mapped(WINDOW + APART)
    return maps, stored(maps, tmp_path_factory.mktemp("apart"))


def test_each_map_has_the_rows_of_its_window(apart: tuple[list[Density], ResultMaps]) -> None:
    for one, read in zip(apart[0], apart[1].maps, strict=True):
        assert read.estimate == pytest.approx(one.estimate)
        assert read.days == (one.first_day, one.last_day)


def test_the_change_of_both_is_told_and_cells_alone_are_drawn(
    apart: tuple[list[Density], ResultMaps],
) -> None:
    data = changes_data(apart[1], apart[1], "")
    (one,) = data["maps"]
    assert one["no_data"] == pytest.approx(0.3, abs=0.04)
    assert one["other"] == pytest.approx(0.3 * (0.6 - 0.9), abs=0.05)
    assert {len(one[name]) for name in ("share", "low", "high", "shade")} == {36}
    assert max(one["visible"], default=0) < 36
    assert data["top"] < 0.2  # the largest change of a cell, not of `no_data`
    assert changes_view(data)["num_cells"] == 36


def test_a_result_that_does_not_tell_them_apart_is_another_list(
    apart: tuple[list[Density], ResultMaps], tmp_path: Path
) -> None:
    plain = stored(mapped(WINDOW), tmp_path)
    assert len(plain.maps[0].estimate) == 37
    assert "no_data" not in changes_data(plain, plain, "")["maps"][0]
    with pytest.raises(RequestError, match="tells `no_data` from `other`"):
        changes_data(plain, apart[1], "")
