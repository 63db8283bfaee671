"""Maps of more cells than deviations can be had for: blocks of cells deviate in their place."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.density import map_series
from decoder.density.cells import Places, slot_readings
from decoder.density.field_prior import Prior
from decoder.density.map_series import Blocks, window_maps
from tests.decoder.series_support import WINDOW, declared, hills, people, windows_of


def shared_map(places: Places) -> np.ndarray:
    shares = np.append(hills(places) + 1e-5, 0.2)
    return np.asarray(shares / shares.sum())


def test_light_cells_are_merged_with_light_neighbors() -> None:
    _, places = declared(WINDOW)
    shares = shared_map(places)
    blocks = Blocks.of(shares, places.laplacian, 40, 1)
    of_cell, sizes = blocks.of_cell, np.bincount(blocks.of_cell)
    assert (len(sizes), sizes[-1], of_cell[-1]) == (41, 1, 40)
    heaviest = np.argsort(-shares[:-1])[:5]
    assert (sizes[of_cell[heaviest]] == 1).all()
    held = blocks.summed(shares)
    assert held.sum() == pytest.approx(1)
    assert blocks.within @ held == pytest.approx(shares)
    for block in range(40):
        inside = of_cell[:-1] == block
        edges = places.laplacian[:144, :144].toarray()[np.ix_(inside, inside)] < 0
        reached = np.linalg.matrix_power(edges + np.eye(len(edges)), len(edges))
        assert (reached > 0).all()  # in one piece
    assert blocks.laplacian is not None
    assert blocks.laplacian.toarray().sum(axis=0).tolist() == [0.0] * 41
    assert blocks.laplacian.toarray()[~np.eye(41, dtype=bool)].min() == -1


def test_blocks_that_lose_precision_are_merged_once() -> None:
    """Cells that a sum does not feel, and cells without neighbors."""
    shares = np.array([0.5, 1e-30, 1e-30, 0.3, 1e-30, 0.2])
    blocks = Blocks.of(shares, None, 2, 0)
    assert blocks.of_cell.max() == 1
    assert blocks.of_cell[0] != blocks.of_cell[3]
    assert blocks.summed(shares) == pytest.approx([0.5, 0.5])


def test_readings_and_prior_are_of_joined_cells() -> None:
    metric, places = declared(WINDOW, side=6)
    values = people(places, 5_000, np.full(2, 0.2), np.random.default_rng(1))
    windows = windows_of(metric, places, values, np.random.default_rng(2))
    readings = [slot_readings(one, places, None, keep_empty=True) for one in windows]
    shares = shared_map(places)
    blocks = Blocks.of(shares, places.laplacian, 9, 1)
    reduced = blocks.reduced(readings)
    own = np.random.default_rng(3).dirichlet(np.ones(10))
    assert reduced[1][0].design @ own == pytest.approx(readings[1][0].design @ blocks.within @ own)
    assert reduced[0][0].design is reduced[1][0].design
    prior = Prior.of("neighbors", places.laplacian, len(shares), 1).precision(0.5)
    field = np.random.default_rng(4).normal(size=10)
    together = field[blocks.of_cell]
    assert field @ (blocks.precision(prior) @ field) == pytest.approx(together @ (prior @ together))


@pytest.mark.statistical
@pytest.mark.parametrize("event", [False, True])
def test_deviations_that_predict_nothing_are_not_shown(
    event: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all weeks are alike the map of all is; not in a week that rejects it."""
    monkeypatch.setattr(map_series, "MAX_CELLS_POOLED", 60)
    rng, (metric, places) = np.random.default_rng(6), declared(WINDOW)
    values = np.repeat(rng.choice(144, (40_000, 1), p=np.full(144, 1 / 144)), 4, axis=1)
    if event:
        values[:8_000, 2] = 3
        real = map_series.fit_space_time

        def costly(*given, **more):  # type: ignore[no-untyped-def]
            return replace(real(*given, **more), own_freedom=np.full(4, 1e6))

        monkeypatch.setattr(map_series, "fit_space_time", costly)
    windows = windows_of(metric, places, values, rng)
    maps = list(window_maps(windows, places, None))
    if not event:
        assert {one.source for one in maps} == {"whole"}
        assert not any("disagrees" in text for one in maps for text in one.doubts)
        return
    assert maps[2].source == "series"
    assert maps[2].shares[3] > 0.15
