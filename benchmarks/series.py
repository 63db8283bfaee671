"""Series of maps of New York by H3 cell: windows alone, all as one map, and pooled; changes.

Devices draw a cell from the pickups of a month that differs smoothly from month to month; seven
in ten stay from one window to the next. `moving`: `other` from .2 to .95 over 26 windows.
`changes`: series of ten windows without a change (false flags, coverage of change intervals of
level .90), and with 5 % of the devices in an empty cell for one window. `uniform`: cells alike,
30 % `other`. `drift`: series of ten windows without a change in any cell, while `other` moves from
.2 to .95: false flags among few answers. `speed`: 30 windows of 1,024 cells.

Usage: python benchmarks/series.py [--data ../shared/data/nyc_pickups_h3res8.csv.gz]
       [--people 100000] [--series 10] [--null 20] [--first 0]
       [--part moving,changes,drift,uniform,speed] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _run import PICKUPS, PICKUPS_ARE, Comparison, missing, pickups, run, seconds
from threadpoolctl import threadpool_limits

from decoder.density.cells import Places, places_of
from decoder.density.map_series import map_windows
from rappor_core.grid.drawing import parent_cell
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from simulations.location.series import draw_windows, one_series, true_shares

DECLARED = """
[metrics.places]
kind = "location"
description = "The usual place"
owner = "maps@example.org"
expires = 2099-12-31
{grid}
period = "month"
num_cohorts = 64
"""
H3 = 'grid = "h3"\nbox = [40.5, -74.3, 40.95, -73.65]\nlevels = [7]'
SQUARE = 'grid = "square"\nbox = [0, 0, 8, 8]\nrows = 31\ncolumns = 31\nlevels = [0]'
WAYS = {
    "window": 'mode = "window"\nwindow = 26\nmax_reports = 1\nnum_bits = 32\nepsilon = {one}\n',
    "2 symbols": 'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\n'
    "epsilon_infinity = {life}\nepsilon_one = {one}\n",
    "cap 2": 'mode = "memo"\nnum_bits = 32\nmechanism = "l-osue"\nmax_memoized_values = 2\n'
    "epsilon_infinity = {life}\nepsilon_one = {one}\n",
}


def declared(way: str, epsilon: float, grid: str = H3) -> tuple[Metric, Places]:
    """A metric of one way, and its places."""
    keys = WAYS[way].format(one=epsilon, life=2 * epsilon)
    (metric,) = parse_metrics(DECLARED.format(grid=grid) + keys).parts("places")
    assert metric.location is not None
    return metric, places_of([metric.location])


def shares_of(path: Path, places: Places) -> np.ndarray:
    """Shares of the cells, (n,), without `other`."""
    index = {value: i for i, value in enumerate(places.finest[:-1])}
    shares = np.zeros(len(index))
    for cell, _, _, count in pickups(path):
        place = index.get(parent_cell(places.grid, cell, places.levels[-1]))
        if place is not None:
            shares[place] += count
    return shares / shares.sum()


def crowd(
    shares: np.ndarray,
    places: Places,
    people: int,
    windows: int,
    differ: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Values (people, windows). differ: standard deviation of a month's log shares."""
    near = places.laplacian[:-1, :-1].toarray()
    smooth = np.linalg.inv(near @ near + 0.3 * near + 0.05 * np.eye(len(near)))
    root = np.linalg.cholesky(smooth)
    values = np.empty((people, windows), dtype=np.int64)
    for number in range(windows):
        field = root @ rng.normal(size=len(shares))
        month = shares * np.exp(differ * field / field.std())
        moved = rng.random(people) < (0.3 if number else 1.0)
        values[:, number] = values[:, max(number - 1, 0)]
        values[moved, number] = rng.choice(len(shares), int(moved.sum()), p=month / month.sum())
    return values


def moving(path: Path, people: int) -> Iterator[Comparison]:
    """`other` from .2 to .95 over 26 windows."""
    for way in WAYS:
        for epsilon in (2.0, 4.0):
            rng = np.random.default_rng(1)
            metric, places = declared(way, epsilon)
            values = crowd(shares_of(path, places), places, people, 26, 0.3, rng)
            r = one_series(way, metric, places, values, rng)
            yield Comparison(
                "", f"26 maps of moving crowds, {way}, epsilon {epsilon:g}: distance to the truth",
                "TV", (r.pooled,), "each window alone", (r.alone,),
                note=f"all as one map {r.whole:.3f}; worst windows {r.worst[2]:.3f}, alone "
                f"{r.worst[0]:.3f}, as one {r.worst[1]:.3f}; worse than alone by at most "
                f"{r.over_alone:+.3f}, than all as one by {r.over_whole:+.3f}; "
                f"{r.seconds:.1f} s; new crowd shown "
                f"{' '.join(f'{share:.0%}' for share in r.shown)}, told {r.found}",
            )  # fmt: skip


def drift(path: Path, people: int, null: int, first: int) -> Iterator[Comparison]:
    """False flags where nothing changes but `other`, from .2 to .95 in ten windows."""
    for way in ("window", "2 symbols"):
        metric, places = declared(way, 4.0)
        shares, flags = shares_of(path, places), []
        for seed in range(first, first + null):
            rng = np.random.default_rng(5000 + seed)
            values = crowd(shares, places, people, 10, 0.0, rng)
            values[rng.random(values.shape) < np.linspace(0.2, 0.95, 10)] = len(shares)
            maps = map_windows(draw_windows(metric, places, values, rng), places, None, None)
            told = {int(c) for one in maps if one.changes
                    for c in np.flatnonzero(one.changes.detected)}  # fmt: skip
            flags.append(len(told))
        yield Comparison(
            "", f"10 maps, {way}, epsilon 4, `other` from .2 to .95, {people:,} devices: cells "
            "flagged a series", "", (float(np.mean(flags)),),
            note=f"{sum(flags)} in {null} series, of which {sum(map(bool, flags))} have any",
        )  # fmt: skip


def changes(
    path: Path, people: int, null: int, series: int, first: int = 0
) -> Iterator[Comparison]:
    """False flags, coverage, and a new cell of 5 % in one window of ten. first: of the draws."""
    for way in ("window", "2 symbols"):
        metric, places = declared(way, 4.0)
        shares, flags, held, top, shown, found = shares_of(path, places), 0, [], [], [], 0
        others = wrong = 0
        empty = int(np.flatnonzero(shares == 0)[137])
        busiest = np.argsort(-shares)[:20]
        for seed in range(null + series):
            rng = np.random.default_rng(1000 + first + seed)
            values = crowd(shares, places, people, 10, 0.0, rng)
            values[rng.random(values.shape) < 0.15] = len(shares)
            if seed >= null:
                values[rng.random(people) < 0.05, 6] = empty
            maps = map_windows(draw_windows(metric, places, values, rng), places, None, None)
            true = true_shares(values, len(shares) + 1)
            told = {(t, c) for t, one in enumerate(maps) if one.changes
                    for c in np.flatnonzero(one.changes.detected)}  # fmt: skip
            if seed >= null:
                found += (6, empty) in told
                shown.append(maps[6].shares[empty] / true[6, empty])
            else:
                flags += len({cell for _, cell in told})
            inside = true[:, :-1] / true[:, :-1].sum(axis=1, keepdims=True)
            for index, one in enumerate(maps):
                assert one.changes is not None
                actual = inside[index] - np.delete(inside, index, axis=0).mean(axis=0)
                shown_change, error = one.changes.from_others
                away = np.abs(shown_change - actual) / error
                if seed >= null:  # the new crowd comes from all other cells, which are truly less
                    elsewhere = one.changes.detected & (np.arange(len(actual)) != empty)
                    others += int(elsewhere.sum())
                    wrong += int((elsewhere & (np.sign(shown_change) != np.sign(actual))).sum())
                held.append(away < 1.645)
                top.append(away[busiest] < 1.645)
        yield Comparison(
            "", f"10 maps, {way}, epsilon 4: intervals of change of level .90 that hold", "",
            (float(np.mean(held)),),
            note=f"of the 20 busiest cells {np.mean(top):.3f}; {flags} cells flagged in {null} "
            "series without a change"
            + (
                f"; a new cell of 5 % found in {found} of {series}, {np.mean(shown):.0%} of it "
                f"shown (least {min(shown):.0%}), {others} others flagged, "
                f"{wrong} of them of the wrong sign"
                if series
                else ""
            ),
        )  # fmt: skip


def uniform(seeds: int) -> Iterator[Comparison]:
    """961 cells alike, 20,000 devices, 30 % `other`."""
    for way in ("window", "2 symbols"):
        metric, places = declared(way, float(np.log(3)), SQUARE)
        truth, off, told = np.append(np.full(961, 0.7 / 961), 0.3), [], 0
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            values = rng.choice(962, (20_000, 1), p=truth)
            (one,) = map_windows(draw_windows(metric, places, values, rng), places, None, None)
            off.append(float(np.abs(one.shares - truth).sum() / 2))
            told += bool(one.doubts)
        yield Comparison(
            "", f"a map of 961 cells alike, {way}, epsilon ln 3: distance from the truth", "TV",
            tuple(off), note=f"said to be weak in {told} of {seeds}",
        )  # fmt: skip


def speed(rounds: int) -> Iterator[Comparison]:
    """30 windows of 1,024 cells, 100,000 devices, epsilon 4."""
    grid = SQUARE.replace("31", "32")
    for way in WAYS:
        metric, places = declared(way, 4.0, grid)
        rng = np.random.default_rng(1)
        at = np.array([[int(part) for part in cell.split("-")[1:]] for cell in places.finest[:-1]])
        centres = ((8, 8), (22, 19))
        shares = sum(np.exp(-((at - centre) ** 2).sum(axis=1) / 30) for centre in centres)
        values = crowd(shares / shares.sum(), places, 100_000, 30, 0.3, rng)
        windows = draw_windows(metric, places, values, rng)
        map_windows(windows[:2], places, None, None)  # compiles, and lists the cells
        took = [
            seconds(lambda w=windows, p=places: map_windows(w, p, None, None))
            for _ in range(rounds)
        ]
        yield Comparison("", f"30 maps of 1,024 cells, pooled, {way}", "s", tuple(took))


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """The parts asked for."""
    parts = ["speed"] if chosen.small else chosen.part.split(",")
    told = missing("moving crowds and changes", chosen.data, PICKUPS_ARE)
    with threadpool_limits(1):
        for part in parts:
            if part == "speed":
                yield from speed(1 if chosen.small else 3)
            elif part == "uniform":
                yield from uniform(5)
            elif told:
                yield told
            elif part == "moving":
                yield from moving(chosen.data, chosen.people)
            elif part == "drift":
                yield from drift(chosen.data, chosen.people, chosen.null, chosen.first)
            else:
                yield from changes(
                    chosen.data, chosen.people, chosen.null, chosen.series, chosen.first
                )


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=PICKUPS)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--series", type=int, default=10)
    parser.add_argument("--null", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--part", default="speed,uniform,changes,drift,moving")


if __name__ == "__main__":
    run(__doc__, measure, options)
