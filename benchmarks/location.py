"""How close a map comes to the truth: ours against rivals, on pickups in New York.

Part `once`: every user reports once, in the same protocol on both sides (L-SUE, L-OSUE:
epsilon_infinity twice epsilon_one), or ours with four bytes a report. The rival is multi-freq-ldpy
(Arcolezi et al. 2022), an extra: pip install 'rappor-telemetry[bench]'.

Part `budget`: one budget for life, spent on the maps of --periods periods, of which one is judged.
The rivals are drawn exactly, cell by cell, and decoded by the standard estimator: OUE of the users
of one period in all, BiLOLOHA (two symbols, a hash of its own for each user), L-OSUE of 3 values,
of which the cap changes none here.

Every rival is told with its clip-and-rescale (`clip`) and projected on the simplex; compared are
the best of ours and the best rival with projection. Truth: the users' own distribution over H3
cells.

Usage: python benchmarks/location.py [--part once|budget|both] [--periods 30] [--seeds 3]
       [--data ../shared/data/nyc_pickups_h3res8.csv.gz] [--users 100000] [--levels 7,8]
       [--epsilons 0.5,1.0986,2] [--budgets 1.0986,2,4] [--cohorts 64] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _run import PICKUPS, PICKUPS_ARE, Comparison, missing, pickups, run
from threadpoolctl import threadpool_limits

from decoder.density.cells import Places
from decoder.density.gaussian_field import fit_field
from decoder.density.levels import LevelEstimate, reconcile
from decoder.density.linear_system import read_aggregate
from decoder.density.modes import SECOND_DIAL, modes
from decoder.density.neighbours import cell_laplacian
from decoder.numerics.simplex import project_simplex
from rappor_core.grid.box import Box
from rappor_core.grid.drawing import parent_cell
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

GOAL = 1 / 0.6  # times as near as the best rival with projection
BOX = Box(40.5, -74.3, 40.95, -73.65)


def drawn_support(shares: np.ndarray, users: int, held: float, others: float, rng: Any) -> Any:
    """Unbiased estimates from drawn counts of support.

    held, others: the chance that a report supports a cell, of who is in it and of who is not.
    """
    holders = rng.multinomial(users, shares)
    counts = rng.binomial(holders, held) + rng.binomial(users - holders, others)
    return (counts / users - others) / (held - others)


def projections(plain: np.ndarray) -> dict[str, Any]:
    """Shares from unbiased estimates: clipped and rescaled, and the nearest of the simplex."""
    positive = np.clip(plain, 0, None)
    clipped = positive / max(positive.sum(), 1e-12)
    return {"clip": clipped, "simplex": project_simplex(plain)}


def load(path: Path, level: int) -> tuple[Places, np.ndarray]:
    """Cells of three levels, the last is `level`, and the shares of the pickups in them."""
    grid = Grid("h3", BOX, (level - 2, level - 1, level))
    values = tuple((*grid.cells(one), OTHER) for one in grid.levels)
    index = [{value: i for i, value in enumerate(one)} for one in values]
    parents = tuple(
        np.array([above[OTHER if v == OTHER else parent_cell(grid, v, coarse)] for v in below])
        for above, below, coarse in zip(index, values[1:], grid.levels, strict=False)
    )
    shares = np.zeros(len(values[-1]))
    for cell, latitude, longitude, count in pickups(path):
        if BOX.holds(latitude, longitude):
            shares[index[-1].get(parent_cell(grid, cell, level), len(shares) - 1)] += count
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
    return fit_field([reading], places.laplacian, reserved=1).shares


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
        "OUE, one period": drawn_support(
            shares, users // periods, 0.5, 1 / (math.exp(budget) + 1), rng
        ),
        "BiLOLOHA": drawn_support(shares, users, keep, 0.5, rng),
        "L-OSUE, 3 values": drawn_support(shares, users, three.q_star, three.p_star, rng),
    }
    return {
        f"{name}, {way}": one
        for name, estimate in plain.items()
        for way, one in projections(estimate).items()
    }


def budget_ours(
    places: Places, shares: np.ndarray, users: int, budget: float, periods: int, cohorts: int,
    rng: Any,
) -> dict[str, Any]:  # fmt: skip
    """Maps of one period by the modes between which a metrics.toml chooses."""
    found = {}
    for mode in modes(budget, periods, cohorts):
        users_of_one = users // mode.turns
        found[f"ours, {mode.name}"] = _field(places, shares, users_of_one, mode.params, rng)
    return found


def _estimated(
    aggregate: Callable[..., Any], counts: np.ndarray, users: int, epsilon: float
) -> Any:
    """Its aggregator over the sum of all reports: it only adds them up and counts them."""

    class Reports(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return users

    return aggregate(Reports([counts]), 2 * epsilon, epsilon)


def measure(arguments: argparse.Namespace) -> Iterator[Comparison]:
    """The total variation of the best of ours and of the best rival, seed by seed."""
    told = missing("maps of New York", arguments.data, PICKUPS_ARE)
    if told:
        yield told
        return
    with_rivals = find_spec("multi_freq_ldpy") is not None
    if not with_rivals and arguments.part != "budget":
        yield Comparison(
            "", "multi-freq-ldpy", note="not run: pip install 'rappor-telemetry[bench]'"
        )
    if arguments.small:
        arguments.levels, arguments.seeds = arguments.levels[:1], 1
        arguments.epsilons, arguments.budgets = arguments.epsilons[:1], arguments.budgets[:1]
    with threadpool_limits(1):
        for level in arguments.levels:
            places, shares = load(arguments.data, level)
            yield from of_level(arguments, places, shares, with_rivals)


def of_level(
    arguments: argparse.Namespace, places: Places, shares: np.ndarray, with_rivals: bool
) -> Iterator[Comparison]:
    """Both parts at one level of cells."""
    users, periods, seeds = arguments.users, arguments.periods, arguments.seeds

    def once(epsilon: float, rng: Any) -> dict[str, Any]:
        found = ours(places, shares, users, epsilon, rng)
        return found | (rivals(shares, users, epsilon, rng) if with_rivals else {})

    def budgeted(budget: float, rng: Any) -> dict[str, Any]:
        found = budget_ours(places, shares, users, budget, periods, arguments.cohorts, rng)
        return found | budget_rivals(shares, users, budget, periods, rng)

    start = f"{len(shares) - 1:,} cells, {users:,} users"
    for epsilon in arguments.epsilons if arguments.part != "budget" else ():
        title = f"{start}, one report, epsilon_one {epsilon:.3f}: distance from the truth"
        yield compared(title, once, shares, epsilon, seeds)
    for budget in arguments.budgets if arguments.part != "once" else ():
        title = f"{start}, one of {periods} periods, budget {budget:.3f}: distance from the truth"
        yield compared(title, budgeted, shares, budget, seeds)


def compared(
    title: str, make: Callable[..., Any], shares: np.ndarray, dial: float, seeds: int
) -> Comparison:
    """The best of ours beside the best rival with projection; the others in the note."""
    distances: dict[str, list[float]] = {}
    for seed in range(seeds):
        for name, one in make(dial, np.random.default_rng(seed)).items():
            distances.setdefault(name, []).append(float(0.5 * np.abs(one - shares).sum()))
    middle = {name: statistics.median(tvs) for name, tvs in distances.items()}
    own = min((n for n in middle if n.startswith("ours")), key=lambda n: middle[n])
    others = [n for n in middle if n.endswith("simplex") and not n.startswith("ours")]
    note = "; ".join([own, *(f"{n} {tv:.3f}" for n, tv in middle.items() if n != own)])
    if not others:
        return Comparison("", title, "TV", tuple(distances[own]), note=note)
    best = min(others, key=lambda n: middle[n])
    return Comparison(
        "", title, "TV", tuple(distances[own]), best, tuple(distances[best]), target=GOAL, note=note
    )


def options(parser: argparse.ArgumentParser) -> None:
    def floats(text: str) -> list[float]:
        return [float(part) for part in text.split(",")]

    parser.add_argument("--data", type=Path, default=PICKUPS)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=floats, default=[0.5, math.log(3), 2.0])
    parser.add_argument("--part", choices=("once", "budget", "both"), default="both")
    parser.add_argument("--periods", type=int, default=30)
    parser.add_argument("--cohorts", type=int, default=64)
    parser.add_argument("--budgets", type=floats, default=[math.log(3), 2.0, 4.0])
    parser.add_argument("--levels", type=lambda t: list(map(int, t.split(","))), default=[7, 8])


if __name__ == "__main__":
    run(__doc__, measure, options)
