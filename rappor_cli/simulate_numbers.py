"""`rappor simulate numbers`: our designs for numbers and their rivals, in one run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from rappor_cli import options as shared
from rappor_cli.figures import known_names
from rappor_cli.progress import stage_bars
from simulations.numbers.comparison import DESIGNS, OURS, ComparisonSetting, compare

Budgets = Annotated[
    list[float] | None, typer.Option("--life", min=0.1, max=10, help="Nats for life; may repeat.")
]
Devices = Annotated[
    list[int] | None, typer.Option(min=1_000, help="Number of devices; may repeat.")
]
Runs = Annotated[int, typer.Option(min=1, help="Draws of each population.")]
Design = Annotated[
    list[str] | None, typer.Option(help="Only this design of the table; may repeat.")
]


def numbers(
    life: Budgets = None,
    devices: Devices = None,
    runs: Runs = 4,
    seed: shared.Seed = None,
    design: Design = None,
    as_json: shared.Json = False,
) -> None:
    """Learn seven distributions of numbers under one budget for life; distance to the truth."""
    known_names(design, tuple(DESIGNS), "--design")
    budgets = life or [math.log(3), 2.0, 4.0]
    sizes = devices or [10_000, 100_000]
    with stage_bars() as progress:
        cells = compare(budgets, sizes, runs, np.random.default_rng(seed),
                        lambda done, total: progress("settings", done, total),
                        design or DESIGNS)  # fmt: skip
    if as_json:
        rows = [
            {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(c).items()}
            for c in cells
        ]
        print(json.dumps(rows))
        return
    console = Console()
    console.print(_distances(cells, budgets, sizes, runs))
    console.print(_intervals(cells))


def _distances(
    cells: list[ComparisonSetting], budgets: list[float], sizes: list[int], runs: int
) -> Table:
    table = Table(title=f"W1, geometric mean of 7 populations, +- Monte-Carlo error of {runs} runs")
    table.add_column("design")
    for budget in budgets:
        for size in sizes:
            table.add_column(f"{budget:.3g} nats, {size:,}", justify="right")
    for design in dict.fromkeys(cell.design for cell in cells):
        row = [f"{c.w1:.4f} +- {c.w1_error:.4f}" for c in cells if c.design == design]
        table.add_row(design, *row)
    return table


def _intervals(cells: list[ComparisonSetting]) -> Table:
    table = Table(title="ours: 95 % intervals, and the worst population")
    for heading in ("design", "life", "devices", "coverage", "half-width", "quantiles", "worst W1",
                    "max error"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "design" else "right")
    for c in cells:
        if c.design in OURS:
            table.add_row(c.design, f"{c.budget:.3g}", f"{c.devices:,}", f"{c.coverage:.3f}",
                          f"{c.half_width:.4f}", f"{c.quantiles:.3f}", f"{c.worst:.4f}",
                          f"{c.max_error:.4f}")  # fmt: skip
    return table
