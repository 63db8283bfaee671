"""How close a map comes to the truth: ours against rivals, on pickups in New York.

Part `once`: every user reports once, in the same protocol on both sides (L-SUE, L-OSUE:
epsilon_infinity twice epsilon_one), or ours with four bytes a report. The rival is multi-freq-ldpy
(Arcolezi et al. 2022), an extra: pip install 'rappor-telemetry[bench]'.

Part `budget`: one budget for life, spent on the maps of --periods periods, of which one is judged.
The rivals are drawn exactly, cell by cell, and decoded by the standard estimator: OUE of the users
of one period in all, BiLOLOHA (two symbols, a hash of its own for each user), L-OSUE of 3 values,
of which the cap changes none here.

Every rival is printed with its clip-and-rescale (`clip`) and projected on the simplex; the ratio is
of the best of ours to the best rival with projection. Truth: the users' own distribution over H3
cells.

Usage: python benchmarks/location.py [--part once|budget|both] [--periods 30] [--seeds 3]
       [--data ../shared/data/nyc_pickups_h3res8.csv.gz] [--users 100000] [--levels 7,8]
       [--epsilons 0.5,1.0986,2] [--budgets 1.0986,2,4] [--cohorts 64]
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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from decoder.density.cells import Places
from decoder.density.gaussian_field import fit_field
from decoder.density.levels import LevelEstimate, reconcile
from decoder.density.linear_system import read_aggregate
from decoder.density.neighbours import cell_laplacian
from decoder.numerics.simplex import project_simplex
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.location.allocations import SECOND_DIAL, modes_to_try
from simulations.populations.draws import draw_aggregate

GOAL = 0.6  # of the best rival with projection
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
    return fit_field([reading], places.laplacian, other=True).shares


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
        counts = np.sum(total, axis=0)
        found[f"multi-freq-ldpy {name}, clip"] = _estimated(aggregate, counts, users, epsilon)
        make = TwoRoundMechanism.symmetric if name == "L_SUE" else TwoRoundMechanism.optimised
        params = RapporParams(len(shares), 1, 1, make(2 * epsilon, epsilon), "one_hot")
        plain = (counts / users - params.p_star) / (params.q_star - params.p_star)
        found[f"multi-freq-ldpy {name}, simplex"] = project_simplex(plain)
    return found


def budget_rivals(
    shares: np.ndarray, users: int, budget: float, periods: int, rng: Any
) -> dict[str, Any]:
    """Maps of one period by what others would do with a budget for all periods."""
    two = TwoRoundMechanism.symbols(2, budget / 2, SECOND_DIAL * budget / 2)
    keep = RapporParams(2, 1, 1, two, "symbol").q_star
    capped = TwoRoundMechanism.optimised(budget / 3, SECOND_DIAL * budget / 3)
    three = RapporParams(len(shares), 1, 1, capped, "one_hot")
    plain = {
        "OUE, one period": _drawn(shares, users // periods, 0.5, 1 / (math.exp(budget) + 1), rng),
        "BiLOLOHA": _drawn(shares, users, keep, 0.5, rng),
        "L-OSUE, 3 values": _drawn(shares, users, three.q_star, three.p_star, rng),
    }
    found = {f"{name}, clip": _clipped(one) for name, one in plain.items()}
    return found | {f"{name}, simplex": project_simplex(one) for name, one in plain.items()}


def _drawn(shares: np.ndarray, users: int, held: float, others: float, rng: Any) -> Any:
    """Unbiased estimates from counts of support, drawn: with chance `held` for who holds a cell."""
    holders = rng.multinomial(users, shares)
    counts = rng.binomial(holders, held) + rng.binomial(users - holders, others)
    return (counts / users - others) / (held - others)


def _clipped(estimates: np.ndarray) -> Any:
    positive = np.clip(estimates, 0, None)
    return positive / max(positive.sum(), 1e-12)


def budget_ours(
    places: Places, shares: np.ndarray, users: int, budget: float, periods: int, cohorts: int,
    rng: Any,
) -> dict[str, Any]:  # fmt: skip
    """Maps of one period by the modes between which a metrics.toml chooses."""
    found = {}
    for way, turns, _ in modes_to_try(budget, periods, cohorts):
        params = way.metric(12, "day").params
        found[f"ours, {way.name}"] = _field(places, shares, users // turns, params, rng)
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
    """Print the median total variation of each way, the range over the seeds, and the ratio."""
    with_rivals = find_spec("multi_freq_ldpy") is not None
    if not with_rivals and arguments.part != "budget":
        print("multi-freq-ldpy is missing: pip install 'rappor-telemetry[bench]'", file=sys.stderr)
    users, periods = arguments.users, arguments.periods

    def once(places: Places, shares: np.ndarray, epsilon: float, rng: Any) -> dict[str, Any]:
        found = ours(places, shares, users, epsilon, rng)
        return found | (rivals(shares, users, epsilon, rng) if with_rivals else {})

    def budgeted(places: Places, shares: np.ndarray, budget: float, rng: Any) -> dict[str, Any]:
        found = budget_ours(places, shares, users, budget, periods, arguments.cohorts, rng)
        return found | budget_rivals(shares, users, budget, periods, rng)

    for level in arguments.levels:
        places, shares = load(arguments.data, level)
        start = f"{len(shares) - 1:,} cells, {users:,} users, {arguments.seeds} seeds"
        if arguments.part != "budget":
            for epsilon in arguments.epsilons:
                title = f"{start}, one report, epsilon_one {epsilon:.3f}"
                compare(title, once, places, shares, epsilon, arguments.seeds)
        if arguments.part != "once":
            for budget in arguments.budgets:
                title = f"{start}, one of {periods} periods, budget {budget:.3f}"
                compare(title, budgeted, places, shares, budget, arguments.seeds)


def compare(
    title: str, make: Callable[..., Any], places: Places, shares: np.ndarray, dial: float,
    seeds: int,
) -> None:  # fmt: skip
    """Print what each way comes to, and the best of ours by the best rival with projection."""
    distances: dict[str, list[float]] = {}
    for seed in range(seeds):
        for name, one in make(places, shares, dial, np.random.default_rng(seed)).items():
            distances.setdefault(name, []).append(float(0.5 * np.abs(one - shares).sum()))
    print(f"\n{title}")
    middle = {name: statistics.median(tvs) for name, tvs in distances.items()}
    for name, tvs in distances.items():
        print(f"  {name:34} {middle[name]:.3f}  ({min(tvs):.3f} to {max(tvs):.3f})")
    best = min((tv, name) for name, tv in middle.items() if name.startswith("ours"))
    others = [
        (tv, name)
        for name, tv in middle.items()
        if name.endswith("simplex") and not name.startswith("ours")
    ]
    if others:
        tv, name = min(others)
        goal = "" if best[0] <= GOAL * tv else f", above the goal of {GOAL}"
        print(f"  {best[1]} / {name}: {best[0] / tv:.2f}{goal}", flush=True)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=lambda t: list(map(float, t.split(","))),
                        default=[0.5, math.log(3), 2.0])  # fmt: skip
    parser.add_argument("--part", choices=("once", "budget", "both"), default="both")
    parser.add_argument("--periods", type=int, default=30)
    parser.add_argument("--cohorts", type=int, default=64)
    parser.add_argument("--budgets", type=lambda t: list(map(float, t.split(","))),
                        default=[math.log(3), 2.0, 4.0])  # fmt: skip
    parser.add_argument("--levels", type=lambda t: list(map(int, t.split(","))), default=[7, 8])
    with threadpool_limits(1):
        run(parser.parse_args())


if __name__ == "__main__":
    main()
