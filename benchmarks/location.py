"""How close a map comes to the truth: ours against multi-freq-ldpy, on pickups in New York.

Every user reports once, in the same protocol on both sides (L-SUE, L-OSUE: epsilon_infinity twice
epsilon_one), or ours with four bytes a report. Truth: the users' own distribution over H3 cells.
multi-freq-ldpy (Arcolezi et al. 2022) is an extra: pip install 'rappor-telemetry[bench]'.

Usage: python benchmarks/location.py [--data ../shared/data/nyc_pickups_h3res8.csv.gz]
       [--users 100000] [--seeds 3] [--epsilons 0.5,1.0986,2] [--levels 7,8]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import statistics
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from decoder.field import fit_field
from decoder.hierarchy import LevelEstimate, reconcile
from decoder.neighbours import cell_laplacian
from decoder.places import Places
from decoder.readings import read_aggregate
from decoder.simplex import project_simplex
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.draws import draw_aggregate

BOX = Box(40.5, -74.3, 40.95, -73.65)
DATA = Path(__file__).parents[1] / ".." / "shared" / "data" / "nyc_pickups_h3res8.csv.gz"


def load(path: Path, level: int) -> tuple[Places, np.ndarray]:
    """Cells of three levels, the last is `level`, and the shares of the pickups in them."""
    grid = Grid("h3", BOX, (level - 2, level - 1, level))
    values = tuple((*grid.cells(one), OTHER) for one in grid.levels)
    index = [{value: i for i, value in enumerate(one)} for one in values]
    parents = tuple(
        np.array([above[OTHER if v == OTHER else grid.parent(v, coarse)] for v in below])
        for above, below, coarse in zip(index, values[1:], grid.levels, strict=False)
    )
    shares = np.zeros(len(values[-1]))
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if BOX.holds(float(row["lat"]), float(row["lon"])):
                cell = grid.parent(row["cell"], level)
                shares[index[-1].get(cell, len(shares) - 1)] += float(row["count"])
    places = Places(grid, grid.levels, values, parents, cell_laplacian(grid, values[-1]))
    return places, shares / shares.sum()


def estimates(values: Any, shares: np.ndarray, users: int, params: RapporParams, rng: Any) -> Any:
    """Unbiased one-hot estimates of one level and their standard error."""
    aggregate, _ = draw_aggregate(list(values), shares, users, params, rng)
    counts = np.array(aggregate.bit_counts[0]) / users
    gap = params.q_star - params.p_star
    error = math.sqrt(params.p_star * (1 - params.p_star) / users) / gap
    return (counts - params.p_star) / gap, np.full(len(counts), error)


def ours(
    places: Places, shares: np.ndarray, users: int, epsilon: float, rng: Any
) -> dict[str, Any]:
    """Maps of every kind from fresh draws of the same users."""
    osue = TwoRoundMechanism.optimised(2 * epsilon, epsilon)
    one_hot = RapporParams(len(shares), 1, 1, osue, "one_hot")
    found = {}
    flat, _ = estimates(places.finest, shares, users, one_hot, rng)
    found["ours, L-OSUE, simplex"] = project_simplex(flat)
    levels = []
    for i, values in enumerate(places.values):
        coarse = np.bincount(places.ancestors(i), shares, len(values))
        params = RapporParams(len(values), 1, 1, osue, "one_hot")
        levels.append(LevelEstimate(*estimates(values, coarse, users // 3, params, rng)))
    found["ours, L-OSUE, hierarchy"] = reconcile(levels, places.parents)[-1]
    symbols = max(2, round(math.exp(epsilon)) + 1)
    for name, params in (
        ("ours, L-OSUE, field", one_hot),
        ("ours, 4 bytes a report, field", RapporParams(32, 1, 64, osue)),
        (
            f"ours, LOLOHA {symbols} symbols, field",
            RapporParams(symbols, 1, 64,
                         TwoRoundMechanism.symbols(symbols, 2 * epsilon, epsilon), "symbol"),
        ),
    ):  # fmt: skip
        found[name] = _field(places, shares, users, params, rng)
    return found


def _field(places: Places, shares: np.ndarray, users: int, params: RapporParams, rng: Any) -> Any:
    values = list(places.finest)
    aggregate, _ = draw_aggregate(values, shares, users, params, rng)
    reading = read_aggregate(aggregate, places.design(len(places.levels) - 1, params), 1.0)
    return fit_field([reading], places.laplacian).shares


def rivals(shares: np.ndarray, users: int, epsilon: float, rng: Any) -> dict[str, Any]:
    """multi-freq-ldpy's own clients and estimator, with its clip-and-rescale."""
    held = np.repeat(np.arange(len(shares)), rng.multinomial(users, shares))
    found = {}
    for name in ("L_SUE", "L_OSUE"):
        module = import_module(f"multi_freq_ldpy.long_freq_est.{name}")
        client: Callable[..., Any] = getattr(module, f"{name}_Client")
        aggregate: Callable[..., Any] = getattr(module, f"{name}_Aggregator_MI")
        total, batch = [], np.zeros(len(shares))
        for number, value in enumerate(held, start=1):
            batch = batch + client(int(value), len(shares), 2 * epsilon, epsilon)
            if number % 1000 == 0 or number == users:
                total.append(batch)
                batch = np.zeros(len(shares))
        found[f"multi-freq-ldpy {name}"] = _estimated(
            aggregate, np.sum(total, axis=0), users, epsilon
        )
    return found


def _estimated(
    aggregate: Callable[..., Any], counts: np.ndarray, users: int, epsilon: float
) -> Any:
    """Its aggregator over the sum of all reports: it only adds them up and counts them."""

    class Reports(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return users

    return aggregate(Reports([counts]), 2 * epsilon, epsilon)


def run(arguments: argparse.Namespace) -> None:
    """Print the median total variation of each way, and the range over the seeds."""
    try:
        import_module("multi_freq_ldpy")
        with_rivals = True
    except ModuleNotFoundError:
        print("multi-freq-ldpy is missing: pip install 'rappor-telemetry[bench]'", file=sys.stderr)
        with_rivals = False
    for level in arguments.levels:
        places, shares = load(arguments.data, level)
        for epsilon in arguments.epsilons:
            distances: dict[str, list[float]] = {}
            for seed in range(arguments.seeds):
                rng = np.random.default_rng(seed)
                found = ours(places, shares, arguments.users, epsilon, rng)
                if with_rivals:
                    found |= rivals(shares, arguments.users, epsilon, rng)
                for name, one in found.items():
                    tv = float(0.5 * np.abs(one - shares).sum())
                    distances.setdefault(name, []).append(tv)
            print(f"\n{len(shares) - 1:,} cells, {arguments.users:,} users, epsilon_one "
                  f"{epsilon:.3f}, {arguments.seeds} seeds")  # fmt: skip
            for name, tvs in distances.items():
                spread = f"({min(tvs):.3f} to {max(tvs):.3f})"
                print(f"  {name:34} {statistics.median(tvs):.3f}  {spread}", flush=True)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=lambda t: list(map(float, t.split(","))),
                        default=[0.5, math.log(3), 2.0])  # fmt: skip
    parser.add_argument("--levels", type=lambda t: list(map(int, t.split(","))), default=[7, 8])
    with threadpool_limits(1):
        run(parser.parse_args())


if __name__ == "__main__":
    main()
