"""`rappor simulate flows`: five questions and other ways to learn flows, at equal epsilon."""

from __future__ import annotations

import json
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from decoder.results.warnings import percent
from rappor_cli import options as shared
from rappor_cli.progress import progress_bar
from simulations.flows.rivals import RIVALS
from simulations.flows.study import OURS, FlowSetting, compare_ways

Epsilons = Annotated[
    list[float] | None,
    typer.Option("--epsilon", min=0.5, max=6, help="Nats of a device, for life; may repeat."),
]
Devices = Annotated[
    list[int] | None, typer.Option(min=1_000, help="Number of devices; may repeat.")
]
Runs = Annotated[int, typer.Option(min=1, help="Cities and draws of each setting.")]
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
    for heading in ("devices", "nats", "told", "wrong", "of the 50 largest hold", "found 8 in 10",
                    "zone pair, error", "processor s"):  # fmt: skip
        table.add_column(heading, justify="right")
    for one in found:
        if one.way == OURS:
            table.add_row(f"{one.devices:,}", f"{one.epsilon:.3g}", f"{one.told:.1f}",
                          f"{one.wrong:.1f}", f"{one.held:.3f}", percent(one.smallest or 0.0),
                          percent(one.zones or 0.0), f"{one.seconds:.1f}")  # fmt: skip
    return table
