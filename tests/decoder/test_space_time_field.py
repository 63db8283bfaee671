"""Maps of many windows: pooled, with `other` free, checked, and with detected changes."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.density import map_series
from decoder.density.cells import Places, slot_readings
from decoder.density.field_prior import Belief, Prior
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import LevelEquations
from decoder.density.map_series import Blocks, window_maps
from decoder.density.maps import estimate_density_series
from decoder.density.space_time_field import _shared_freedom
from decoder.density.space_time_model import MAX_VARIANCE, Modes, contrasts_of, learn_strengths
from decoder.output.density_csv import density_table
from tests.decoder.series_support import (
    SYMBOLS,
    WINDOW,
    declared,
    hills,
    people,
    truths,
    windows_of,
)
from tests.map_moves import MODES

EVEN = np.full(8, 0.15)
EMPTY = 11  # a cell in a corner


@pytest.mark.parametrize(
    "keys", [WINDOW, pytest.param(SYMBOLS, marks=pytest.mark.long)], ids=["window", "symbols"]
)
def test_new_crowds_in_empty_cells_are_found(keys: str) -> None:
    """5 % of 60,000 devices for one window; no other cell or window is named."""
    rng, (metric, places) = np.random.default_rng(5), declared(keys)
    values = people(places, 60_000, EVEN, rng)
    assert hills(places)[EMPTY] == 0
    values[rng.random(len(values)) < 0.05, 5] = EMPTY
    true = truths(values, places)[5]
    maps = list(window_maps(windows_of(metric, places, values, rng), places, None))
    changes = [one.changes for one in maps]
    assert [
        (t, c)
        for t, one in enumerate(changes)
        if one
        for c in np.flatnonzero(one.p_adjusted <= 0.05)
    ] == [(5, EMPTY)]
    assert 0.8 < maps[5].shares[EMPTY] / true[EMPTY] < 1.2
    assert max(one.shares[EMPTY] for t, one in enumerate(maps) if t != 5) < 0.01
    change, error = (part[EMPTY] for part in changes[5].from_others)
    assert abs(change - true[EMPTY] / (1 - true[-1])) < 4 * error


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(WINDOW, id="window"),
        pytest.param(SYMBOLS, id="symbols", marks=pytest.mark.long),
    ],
)
def test_intervals_of_changes_hold_without_false_flags(keys: str) -> None:
    """12 series without a change. Flags: .05 a series at most, so 4 or more 3 times in 1,000."""
    metric, places = declared(keys)
    flags, held = 0, []
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        values = people(places, 30_000, EVEN, rng)
        maps = list(window_maps(windows_of(metric, places, values, rng), places, None))
        true = truths(values, places)[:, :-1]
        true = true / true.sum(axis=1, keepdims=True)
        for index, one in enumerate(maps):
            actual = true[index] - np.delete(true, index, axis=0).mean(axis=0)
            change, error = one.changes.from_others
            held.append(np.abs(change - actual) < 1.645 * error)
            flags += int((one.changes.p_adjusted <= 0.05).sum())
    assert flags <= 3
    assert 0.87 < np.mean(held) < 0.93


@pytest.mark.parametrize(
    "lost", ["whole", *(pytest.param(one, marks=pytest.mark.long) for one in ("series", "alone"))]
)
def test_a_wrong_field_is_never_shown(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, (metric, places) = np.random.default_rng(7), declared(WINDOW, side=6)
    values = people(places, 20_000, np.full(3, 0.2), rng)
    windows, true = windows_of(metric, places, values, rng), truths(values, places)

    def misled(name: str, times: int) -> None:
        real, left = getattr(map_series, name), [times]

        def wrong(*given, **more):  # type: ignore[no-untyped-def]
            found = real(*given, **more)
            left[0] -= 1
            if left[0] < 0:
                return found
            shares = found.shares.copy()
            shares[..., :-1] = shares[..., -2::-1]
            return replace(found, shares=shares)

        monkeypatch.setattr(map_series, name, wrong)

    misled("fit_space_time", 1)
    misled("fit_field", {"series": 0, "whole": 1, "alone": 99}[lost])
    maps = list(estimate_density_series(windows, places=places))
    source = {"series": "whole", "whole": "alone", "alone": "projection"}[lost]
    assert {one.source for one in maps} == {source}
    for one, t in zip(maps, true, strict=True):
        assert np.abs(one.shares - t).sum() / 2 < 0.1
        assert any("disagrees" in text or "No field agrees" in text for text in one.warnings)
    assert set(density_table(maps)["map_source"].to_pylist()) == {source}


@pytest.mark.parametrize(
    "variance", [0.15, *(pytest.param(v, marks=pytest.mark.long) for v in (0.02, 2.0))]
)
def test_the_strength_is_read_off_contrasts_and_bounded(variance: float) -> None:
    """Drawn from the model, with uneven windows; beyond .3 the linear step is too far."""
    rng, windows = np.random.default_rng(11), 12
    information = np.geomspace(0.1, 1e4, 200)
    scale = np.linspace(0.5, 1.4, windows)
    steps = np.abs(np.subtract.outer(np.arange(windows), np.arange(windows)))
    repeat = np.where(steps == 0, 1.0, 0.5 * (0.5 * 0.6**steps + 0.5))
    deviations = np.sqrt(variance) * rng.normal(size=(200, windows))
    noise = rng.normal(size=(500, windows)) @ np.linalg.cholesky(repeat).T
    level = 10 * rng.normal(size=(200, 1))
    data = np.sqrt(information)[:, None] * (deviations + level) * scale + noise[:200]
    rest = noise[200:].T @ noise[200:]
    modes = Modes(information, data, np.eye(200), np.eye(200), rest, 300)
    inside = np.ones(windows)
    found = learn_strengths(modes, scale, inside, 0.7, independent=False)
    assert found.variance == pytest.approx(min(variance, MAX_VARIANCE), rel=0.3)
    if variance < MAX_VARIANCE:
        assert found.repeated * (found.lasting + (1 - found.lasting) * found.psi) == pytest.approx(
            0.4, abs=0.1
        )
    assert learn_strengths(modes, scale, inside, 0.7, independent=True).phi == 0
    contrasts = contrasts_of(scale, inside, found)
    assert contrasts.turn @ np.ones(windows) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("fading", [0.0, 0.6])
def test_the_noise_of_few_repeats_less(fading: float) -> None:
    """Contrasts of noise alone have variance 1 in each window, whether what repeats fades."""
    rng, inside = np.random.default_rng(12), 1 - np.linspace(0.2, 0.95, 10)
    away = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    faded = (inside / inside.max()) ** fading
    repeat = np.where(away == 0, 1.0, 0.6 * np.outer(faded, faded) * 0.7**away)
    noise = rng.normal(size=(6000, 10)) @ np.linalg.cholesky(repeat).T
    rest = noise[60:].T @ noise[60:]
    modes = Modes(np.full(60, 1e-3), noise[:60], np.eye(60), np.eye(60), rest, 5940)
    scale = inside / np.sqrt(np.mean(inside**2))
    learnt = learn_strengths(modes, scale, inside, 0.9, independent=True)
    contrasts = contrasts_of(scale, inside, learnt)
    each = np.eye(10) @ contrasts.turn.T
    turned = (noise / scale) @ contrasts.turn.T
    scores = turned @ each.T / np.sqrt((each**2).sum(axis=1))
    assert scores.std(axis=0) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("rows", ["fewer", "more"])
def test_parameters_are_counted_by_rows_as_by_cells(rows: str) -> None:
    keys = MODES["window"].format(budget=4.0).replace("window = 6", "window = 12")
    metric, places = declared(keys, side=6)
    rng = np.random.default_rng(6)
    assert hills(places).min() == 0
    values = people(places, 9_000, np.full(2, 0.2), rng)
    readings = [slot_readings(one, places, None) for one in windows_of(metric, places, values, rng)]
    if rows == "fewer":
        some = slice(0, 20)
        readings = [[cut(one, some) for one in window] for window in readings]
    shared = fit_field(readings[0], places.laplacian, Belief("neighbors", 0.5), reserved=1)
    s, total = shared.shares, 0.0
    precision = Prior.of("neighbors", places.laplacian, len(s), 1).precision(0.5)
    found = _shared_freedom(readings, s, precision)
    for level in zip(*readings, strict=True):
        weights = sum(one.precision(s) for one in level)
        design = level[0].design.toarray()
        toward = (design - (design @ s)[:, None]) * s
        total = total + toward.T @ (np.asarray(weights)[:, None] * toward)
    expected = np.trace(np.linalg.solve(total + precision.toarray(), total))
    assert found == pytest.approx(expected, rel=1e-6)


def cut(one: LevelEquations, rows: slice) -> LevelEquations:
    return replace(one, design=one.design[rows], target=one.target[rows], reports=one.reports[rows])


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
    assert blocks.laplacian.toarray().sum(axis=0).tolist() == [0.0] * 41
    assert blocks.laplacian.toarray()[~np.eye(41, dtype=bool)].min() == -1


def test_blocks_that_lose_precision_are_merged_once() -> None:
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
def test_deviations_that_predict_nothing_are_not_shown(event, monkeypatch) -> None:
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
