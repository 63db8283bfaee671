"""`rappor simulate flows | flow-coverage`: five questions and other ways to learn flows, at equal
epsilon; how often the intervals of flows hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from decoder.formats.known_flows import read_known_flows
from decoder.results.warnings import percent
from decoder.typing import Floats
from rappor_cli import options as shared
from rappor_cli.figures import known_names, print_figures
from rappor_cli.progress import progress_bar
from rappor_cli.text import print_note
from rappor_core.errors import ParameterError
from rappor_core.metrics.flow_kind import FLOW
from rappor_core.metrics.loading import load_metrics
from rappor_core.metrics.metric import Metric
from simulations.flows.city import city_matrix, city_metric
from simulations.flows.coverage import flow_coverage as measure
from simulations.flows.rivals import RIVALS
from simulations.flows.study import OURS, FlowSetting, compare_ways
from simulations.flows.worlds import FLOW_WORLDS, FlowWorld, in_world

Epsilons = Annotated[
    list[float] | None,
    typer.Option("--epsilon", min=0.5, max=6, help="Nats of a device, for life; may repeat."),
]
Devices = Annotated[
    list[int] | None, typer.Option(min=1_000, help="Number of devices; may repeat.")
]
Runs = Annotated[int, typer.Option(min=1, help="Cities and draws of each setting.")]
COVERAGE_HEADINGS = ("world", "nats", "devices", "detected (wrong)", "off", "tau", "s",
                     "intervals of", "a draw", "hold", "±", "worst draw")  # fmt: skip
Side = Annotated[int, typer.Option(min=2, max=7, help="Zones along a side, two cells each.")]


def flows(
    epsilon: Epsilons = None,
    devices: Devices = None,
    runs: Runs = 2,
    side: Side = 5,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """Flows of a made-up city: how far each way is off, at equal epsilon for life."""
    epsilons, sizes = epsilon or [2.0], devices or [20_000, 100_000, 1_000_000]
    total = len(epsilons) * len(sizes) * runs * (1 + len(RIVALS))
    with progress_bar("decodings", total) as advance:
        rng = np.random.default_rng(seed)
        found = compare_ways(epsilons, sizes, runs, rng, advance, side)
    if as_json:
        print(json.dumps([one.row() for one in found], allow_nan=False))
        return
    console = Console()
    console.print(_errors(found, runs))
    console.print(_ours(found))


def flow_coverage(
    epsilon: Epsilons = None,
    devices: Devices = None,
    world: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(FLOW_WORLDS)}; may be repeated.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of each setting.")] = 10,
    cohorts: Annotated[
        int | None, typer.Option(min=10, help="Of the made-up city, a multiple of 10.")
    ] = None,
    side: Side = 5,
    metrics: Annotated[
        Path | None,
        typer.Option(help="metrics.toml with your metric of kind flow, in place of the city's."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Which one of that file.")] = None,
    flows: Annotated[
        Path | None,
        typer.Option(help="CSV of the true matrix: origin,destination,count by names of cells."),
    ] = None,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """How often intervals of flows, zones, cells and bands hold, on drawn counts."""
    known_names(world, FLOW_WORLDS, "--world")
    if metrics and (epsilon or cohorts):
        raise typer.BadParameter("--epsilon and --cohorts are of the city; yours has its own")
    rng = np.random.default_rng(seed)
    settings = list(product(epsilon or [2.0], devices or [100_000], world or ["as is"]))
    rows = []
    with progress_bar("draws", len(settings) * draws) as advance:
        for nats, number, one in settings:
            chosen = (
                _declared(metrics, metric) if metrics else _of_city(nats, number, side, cohorts)
            )
            matrix = _matrix(chosen, flows, rng)
            matrix = in_world(matrix, chosen.details, cast(FlowWorld, one), rng)
            found = measure(chosen, matrix, number, draws, rng, advance)
            nats = chosen.params.epsilon_one
            rows.append({"world": one, "epsilon": nats, "devices": number} | asdict(found))
    if as_json:
        print(json.dumps(rows, allow_nan=False))
        return
    cells = [line for row in rows for line in _coverage_lines(row)]
    title = f"Intervals of 95 %, {draws} draws of each setting"
    left = ("world", "intervals of")
    print_figures(title, COVERAGE_HEADINGS, cells, as_markdown=as_markdown, left=left)


def _of_city(epsilon: float, devices: int, side: int, cohorts: int | None) -> Metric:
    more = {} if cohorts is None else {"num_cohorts": cohorts}
    return city_metric(epsilon, devices, rows=side, columns=side, **more)


def _declared(path: Path, name: str | None) -> Metric:
    """The metric of flows of a file. Raises ParameterError where there is none, or several."""
    found = [one for one in load_metrics(path).declared if one.kind == FLOW.name]
    found = [one for one in found if name in (None, one.name)]
    if len(found) != 1:
        raise ParameterError(
            f"{path} has {len(found)} metrics of kind {FLOW.name!r}"
            + (f" named {name!r}" if name else ": name one with --metric")
        )
    return found[0]


def _matrix(metric: Metric, path: Path | None, rng: np.random.Generator) -> Floats:
    """Shares of pairs: of a file, or a made-up city's."""
    if path is None:
        return city_matrix(metric.details, rng)
    counts = read_known_flows(path, metric.details, print_note)
    return np.asarray(counts / counts.sum())


def _coverage_lines(row: dict[str, Any]) -> list[list[str]]:
    """A line for each quantity; what is of the setting stands in the first."""
    setting = [row["world"], f"{row['epsilon']:.3g}", f"{row['devices']:,}",
               f"{row['detected'] / row['draws']:.1f} ({row['wrong']})", f"{row['error']:.3f}",
               f"{row['tau']:.2g}", f"{row['seconds']:.1f}"]  # fmt: skip
    held: dict[str, Sequence[float] | None] = row["held"]
    numbers = [
        ["-"] * 4 if one is None
        else [f"{one[3]:.0f}", f"{one[0]:.3f}", f"{one[1]:.3f}", f"{one[2]:.2f}"]
        for one in held.values()
    ]  # fmt: skip
    return [
        [*(setting if first else [""] * len(setting)), name, *cells]
        for first, name, cells in zip([True, *[False] * len(held)], held, numbers, strict=False)
    ]


def _errors(found: list[FlowSetting], runs: int) -> Table:
    table = Table(title=f"Total variation to the true matrix, mean of {runs} runs")
    table.add_column("way")
    for epsilon, devices in dict.fromkeys((one.epsilon, one.devices) for one in found):
        table.add_column(f"{epsilon:.3g} nats, {devices:,}", justify="right")
    for way in dict.fromkeys(one.way for one in found):
        table.add_row(way, *(f"{one.error:.3f}" for one in found if one.way == way))
    return table


def _ours(found: list[FlowSetting]) -> Table:
    table = Table(title=OURS)
    for heading in ("devices", "nats", "detected", "wrong", "of the 50 largest hold",
                    "found 8 in 10", "zone pair, error", "processor s"):  # fmt: skip
        table.add_column(heading, justify="right")
    for one in found:
        if one.way == OURS:
            table.add_row(f"{one.devices:,}", f"{one.epsilon:.3g}", f"{one.detected:.1f}",
                          f"{one.wrong:.1f}", f"{one.held:.3f}", percent(one.smallest or 0.0),
                          percent(one.zones or 0.0), f"{one.seconds:.1f}")  # fmt: skip
    return table
