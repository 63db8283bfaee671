"""Does `rappor metrics check` name the best mode of a map? Predicted and measured, side by side.

For each setting (cells, devices, periods, budget) every mode between which a location metric
chooses is drawn and decoded as `rappor density` does, one report a device, one period judged,
devices that stay where they are; measured is the total variation over the cells, the mean of fresh
draws. Named is the mode that `decoder.density.modes` predicts to be best of those that hold so many
places of a device (1, 2 or 3). Compared is its measured error with that of the best one.

Crowds: `city` and `tail` are made up on a square grid (`simulations.location.coverage`), a new one
for each draw; `nyc` are New York pickups by H3 cell.

Usage: python benchmarks/location_modes.py [--settings city:441:100000:12:2,...] [--draws 4]
       [--data ../shared/data/nyc_pickups_h3res8.csv.gz] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _run import PICKUPS, PICKUPS_ARE, Comparison, missing, run
from location import load
from threadpoolctl import threadpool_limits

from decoder.density.cells import Places, places_of
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import read_aggregate
from decoder.density.modes import Mode, modes, predict
from rappor_core.metrics.groups import CROWD, cohorts_affordable
from simulations.location.coverage import true_shares
from simulations.location.series import square_metric
from simulations.populations.draws import draw_aggregate

GOAL = 1 / 1.1  # the named mode's error over that of the best one: 1.1 at most
PLACES = 1, 2, 3
KEYS = 'mode = "once"\nnum_bits = 32\nnum_cohorts = 64\nepsilon = 1.0\n'  # no map is of these


class Setting(NamedTuple):
    """crowd: `city`, `tail` or `nyc`.  cells: about so many.  budget: nats for life."""

    crowd: str
    cells: int
    devices: int
    periods: int
    budget: float

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read `crowd:cells:devices:periods:budget`."""
        crowd, cells, devices, periods, budget = text.split(":")
        return cls(crowd, int(cells), int(devices), int(periods), float(budget))


LN3 = math.log(3)
SETTINGS = (
    Setting("city", 100, 20_000, 1, LN3),
    Setting("city", 100, 20_000, 12, 2.0),
    Setting("city", 100, 100_000, 26, LN3),
    Setting("city", 100, 1_000_000, 26, 4.0),
    Setting("city", 441, 20_000, 4, 4.0),
    Setting("city", 441, 100_000, 1, 2.0),
    Setting("city", 441, 100_000, 12, 2.0),
    Setting("city", 961, 100_000, 26, 4.0),
    Setting("city", 961, 100_000, 4, 2.0),
    Setting("city", 961, 1_000_000, 26, LN3),
    Setting("city", 2_025, 100_000, 12, 4.0),
    Setting("city", 3_969, 100_000, 4, 4.0),
    Setting("tail", 100, 100_000, 12, 2.0),
    Setting("tail", 441, 100_000, 4, 4.0),
    Setting("nyc", 88, 20_000, 12, 2.0),
    Setting("nyc", 541, 100_000, 26, LN3),
    Setting("nyc", 541, 100_000, 4, 2.0),
    Setting("nyc", 3_704, 100_000, 12, 4.0),
)


def crowd_of(setting: Setting, data: Path, rng: np.random.Generator) -> tuple[Places, np.ndarray]:
    """Places, and the true shares of the cells and `other` (n + 1,)."""
    if setting.crowd == "nyc":
        level = next(one for one in (6, 7, 8) if setting.cells < 200 * 7 ** (one - 6))
        return load(data, level)
    side = round(math.sqrt(setting.cells))
    metric = square_metric(side, KEYS)
    assert metric.location is not None
    places = places_of([metric.location])
    return places, true_shares(places, setting.crowd == "city", rng)


def distance(
    mode: Mode, places: Places, truth: np.ndarray, devices: int, rng: np.random.Generator
) -> float:
    """Total variation over the cells of one drawn map."""
    reports = devices // mode.turns
    aggregate, _ = draw_aggregate(list(places.finest), truth, reports, mode.params, rng)
    design = places.design(len(places.levels) - 1, mode.params)
    found = fit_field([read_aggregate(aggregate, design, 1.0)], places.laplacian, reserved=1).shares
    apart = found[:-1] / found[:-1].sum() - truth[:-1] / truth[:-1].sum()
    return float(np.abs(apart).sum() / 2)


def of_setting(setting: Setting, draws: int, data: Path) -> Iterator[Comparison]:
    """Every mode, drawn and decoded; the named one beside the best one."""
    cohorts = cohorts_affordable(CROWD, setting.devices)
    choices = modes(setting.budget, setting.periods, cohorts)
    errors: dict[str, list[float]] = {mode.name: [] for mode in choices}
    even = []
    for draw in range(draws):
        places, truth = crowd_of(setting, data, np.random.default_rng(1_000 + draw))
        cells = truth[:-1] / truth[:-1].sum()
        even.append(float(np.abs(cells - 1 / len(cells)).sum() / 2))
        for mode in choices:
            rng = np.random.default_rng([draw, len(mode.name)])
            errors[mode.name].append(distance(mode, places, truth, setting.devices, rng))
    mean = {name: float(np.mean(found)) for name, found in errors.items()}
    order = predict(choices, setting.devices, len(places.finest) - 1, 1)
    told = "; ".join(
        f"{one.mode.name} {one.error.total_variation:.3f} / {mean[one.mode.name]:.3f} +- "
        f"{np.std(errors[one.mode.name], ddof=1) / math.sqrt(draws):.3f}"
        for one in order
    )
    title = (
        f"{setting.crowd}, {len(places.finest) - 1:,} cells, {setting.devices:,} devices, "
        f"{setting.periods} periods, budget {setting.budget:.2f}, {cohorts} cohorts"
    )
    for held in PLACES:
        named, *others = [
            one.mode.name for one in order if one.mode.places is None or one.mode.places >= held
        ]
        best = min((named, *others), key=lambda name: mean[name])
        yield Comparison(
            "", f"{title}, {held} places", "TV", (mean[named],), f"best mode: {best}",
            (mean[best],), target=GOAL,
            note=f"named {named}; an even map {np.mean(even):.3f}"
            + (f"; predicted / measured: {told}" if held == 1 else ""),
        )  # fmt: skip


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """The settings asked for, or all."""
    settings = [*map(Setting.parse, chosen.settings.split(","))] if chosen.settings else SETTINGS
    if chosen.small:
        settings, chosen.draws = settings[:2], 2
    told = missing("maps of New York", chosen.data, PICKUPS_ARE)
    with threadpool_limits(1):
        for setting in settings:
            if setting.crowd == "nyc" and told:
                yield told
            else:
                yield from of_setting(setting, chosen.draws, chosen.data)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=PICKUPS)
    parser.add_argument("--settings", default="")
    parser.add_argument("--draws", type=int, default=4)


if __name__ == "__main__":
    run(__doc__, measure, options)
