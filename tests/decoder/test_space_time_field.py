"""Maps of many windows: pooled, with `other` free, checked, and with changes that are told."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.density import map_series
from decoder.density.map_series import window_maps
from decoder.density.maps import estimate_density_series
from decoder.density.space_time_model import (
    MAX_VARIANCE,
    Modes,
    contrasts_of,
    learn_strengths,
)
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
    assert changes[5] is not None
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
    """12 series without a change. Flags: .05 a series at most, so 4 or more 3 times in 1,000.

    Intervals of level .90 over 13,824 dependent cells and windows: .87 to .93 is the target.
    """
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
            assert one.changes is not None
            change, error = one.changes.from_others
            held.append(np.abs(change - actual) < 1.645 * error)
            flags += int((one.changes.p_adjusted <= 0.05).sum())
    assert flags <= 3
    assert 0.87 < np.mean(held) < 0.93


@pytest.mark.parametrize(
    "lost", ["whole", *(pytest.param(one, marks=pytest.mark.long) for one in ("series", "alone"))]
)
def test_a_wrong_field_is_never_shown(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the pooled map is wrong that of all is shown, then the window's own, a projection."""
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


def test_evidence_of_structure_is_of_each_window() -> None:
    """A window of 40 reports in a series of 30,000 each: the others speak for the map, not it."""
    rng, (metric, places) = np.random.default_rng(8), declared(WINDOW)
    values = people(places, 30_000, EVEN, rng)
    windows = windows_of(metric, places, values, rng)
    windows[3] = windows_of(metric, places, values[:40], rng)[3]
    doubtful = [
        index
        for index, one in enumerate(window_maps(windows, places, None))
        if any("of this window alone hardly tell" in text for text in one.doubts)
    ]
    assert doubtful == [3]


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
    """Devices that repeat noise while they are in a cell: `other` from .2 to .95, or alike.

    Contrasts of noise alone have variance 1 in each window, whether what repeats fades or not.
    """
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
