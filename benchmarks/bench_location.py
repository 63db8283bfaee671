"""The error of this project's and rivals' maps on pickups in New York.

Once: every user reports once, with the same protocol on both sides (L-SUE, L-OSUE: epsilon_infinity
twice epsilon_one), or with this project's four-byte reports. The rival is multi-freq-ldpy (Arcolezi
et al. 2022) with its own clients and estimator, then projected onto the simplex.

Budget: one lifetime budget, spent on the maps of 30 periods, of which one is evaluated. The rivals
are drawn exactly, cell by cell: OUE by the users of a single period, BiLOLOHA (two symbols, a
separate hash for each user), and L-OSUE of 3 values, a cap that changes no value here.

Truth: the users' own distribution over H3 cells. RAPPOR_PICKUPS names the file: cell,lat,lon,count.
"""

import csv
import gzip
import math
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks.conftest import OURS, Comparison
from decoder.density.cells import Places, cell_laplacian
from decoder.density.gaussian_field import fit_field
from decoder.density.linear_system import read_aggregate
from decoder.grid_cells import parent_cell
from decoder.numerics.optimization import project_simplex
from metric_design.map_forecast import SECOND_DIAL, modes
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

SHARED = Path(__file__).parents[2] / "shared" / "data" / "nyc_pickups_h3res8.csv.gz"
PICKUPS = Path(os.environ.get("RAPPOR_PICKUPS", SHARED))
GOAL = 1 / 0.6  # The goal for the best rival's error (projected) divided by ours
BOX = Box(40.5, -74.3, 40.95, -73.65)
USERS, PERIODS, COHORTS, SEEDS = 100_000, 30, 64, 3
Maps = dict[str, np.ndarray]

pytestmark = pytest.mark.skipif(not PICKUPS.exists(), reason=f"no file of pickups at {PICKUPS}")


@cache
def load(level: int) -> tuple[Places, np.ndarray]:
    """Return the cells of three levels up to `level`, and the finest cells' pickup shares."""
    grid = Grid("h3", BOX, (level - 2, level - 1, level))
    values = tuple((*grid.cells(step), OTHER) for step in grid.levels)
    index = [{value: i for i, value in enumerate(names)} for names in values]
    parents = tuple(
        np.array([above[OTHER if v == OTHER else parent_cell(grid, v, coarse)] for v in below])
        for above, below, coarse in zip(index, values[1:], grid.levels, strict=False)
    )
    shares = np.zeros(len(values[-1]))
    with gzip.open(PICKUPS, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if BOX.holds(float(row["lat"]), float(row["lon"])):
                cell = parent_cell(grid, row["cell"], level)
                shares[index[-1].get(cell, len(shares) - 1)] += float(row["count"])
    places = Places(grid, grid.levels, values, parents, cell_laplacian(grid, values[-1]))
    return places, shares / shares.sum()


def field(places: Places, shares: np.ndarray, users: int, params: RapporParams, rng: Any) -> Any:
    """Return the shares (n,) of this project's map, decoded from one drawn aggregate."""
    aggregate, _ = draw_aggregate(list(places.finest), shares, users, params, rng)
    reading = read_aggregate(aggregate, places.design(len(places.levels) - 1, params), 1.0)
    return fit_field([reading], places.laplacian, reserved=1).shares


def once_ours(places: Places, shares: np.ndarray, epsilon: float, rng: Any) -> Maps:
    """Return this project's maps: by the rivals' protocol, by four-byte reports, and by symbols."""
    osue = TwoRoundMechanism.optimized(2 * epsilon, epsilon)
    symbols = max(2, round(math.exp(epsilon)) + 1)
    loloha = TwoRoundMechanism.symbols(symbols, 2 * epsilon, epsilon)
    designs = {
        "L-OSUE": RapporParams(len(shares), 1, 1, osue, "one_hot"),
        "4 bytes a report": RapporParams(32, 1, COHORTS, osue),
        f"{symbols} symbols": RapporParams(symbols, 1, COHORTS, loloha, "symbol"),
    }
    return {name: field(places, shares, USERS, design, rng) for name, design in designs.items()}


def once_rivals(_: Places, shares: np.ndarray, epsilon: float, rng: Any) -> Maps:
    """Return maps from multi-freq-ldpy's clients, which run report by report."""
    cells = np.repeat(np.arange(len(shares)), rng.multinomial(USERS, shares))
    maps = {}
    for name in ("L_SUE", "L_OSUE"):
        module = import_module(f"multi_freq_ldpy.long_freq_est.{name}")
        client: Callable[..., Any] = getattr(module, f"{name}_Client")
        counts = np.zeros(len(shares))
        for value in cells:
            counts += client(int(value), len(shares), 2 * epsilon, epsilon)
        make = TwoRoundMechanism.symmetric if name == "L_SUE" else TwoRoundMechanism.optimized
        params = RapporParams(len(shares), 1, 1, make(2 * epsilon, epsilon), "one_hot")
        plain = (counts / USERS - params.p_star) / (params.q_star - params.p_star)
        maps[f"multi-freq-ldpy {name}, simplex"] = project_simplex(plain)
    return maps


def budget_ours(places: Places, shares: np.ndarray, budget: float, rng: Any) -> Maps:
    """Return this project's maps of one period, by the modes that a metrics.toml offers."""
    return {
        mode.name: field(places, shares, USERS // mode.turns, mode.params, rng)
        for mode in modes(budget, PERIODS, COHORTS)
    }


def budget_rivals(_: Places, shares: np.ndarray, budget: float, rng: Any) -> Maps:
    """Return maps of one period by other methods that spend a budget for all periods."""
    two = TwoRoundMechanism.symbols(2, budget / 2, SECOND_DIAL * budget / 2)
    capped = TwoRoundMechanism.optimized(budget / 3, SECOND_DIAL * budget / 3)
    designs = {
        "OUE, one period": (USERS // PERIODS, 0.5, 1 / (math.exp(budget) + 1)),
        "BiLOLOHA": (USERS, two.q_star, 0.5),
        "L-OSUE, 3 values": (USERS, capped.q_star, capped.p_star),
    }
    maps = {}
    for name, (users, own_bit, others) in designs.items():
        holders = rng.multinomial(users, shares)
        counts = rng.binomial(holders, own_bit) + rng.binomial(users - holders, others)
        plain = (counts / users - others) / (own_bit - others)
        maps[f"{name}, simplex"] = project_simplex(plain)
    return maps


WAYS: dict[str, tuple[Callable[..., Maps], Callable[..., Maps]]] = {
    "one report, epsilon_one": (once_ours, once_rivals),
    f"one of {PERIODS} periods, budget": (budget_ours, budget_rivals),
}


@pytest.mark.parametrize("level", [7, 8])
@pytest.mark.parametrize(
    ("way", "epsilon"),
    [(way, one) for way, first in zip(WAYS, (0.5, 4.0), strict=True) for one in
     sorted((first, math.log(3), 2.0))],
)  # fmt: skip
@pytest.mark.parametrize("who", [OURS, "the best rival"])
def bench_location(comparison: Comparison, level: int, way: str, epsilon: float, who: str) -> None:
    """Measure the best map's total variation distance from the truth, for each seed."""
    if who != OURS and way.startswith("one report"):
        pytest.importorskip("multi_freq_ldpy")
    places, shares = load(level)
    make = WAYS[way][who != OURS]
    best: list[str] = []

    def distance(seed: int) -> float:
        with threadpool_limits(1):
            maps = make(places, shares, epsilon, np.random.default_rng(seed))
        off = {name: float(0.5 * np.abs(map_ - shares).sum()) for name, map_ in maps.items()}
        best.append(min(off, key=lambda name: off[name]))
        return off[best[-1]]

    measured = f"{len(shares) - 1:,} cells, {USERS:,} users, {way} {epsilon:.3f}: total variation"
    comparison.name(measured, who, target=GOAL)
    comparison.values(distance, SEEDS, "TV")
    comparison.name(measured, max(set(best), key=best.count) if who != OURS else OURS, note=best[0])
