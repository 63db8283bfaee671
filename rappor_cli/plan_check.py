"""`rappor simulate plan`: are the predictions of `rappor plan` true?"""

from __future__ import annotations

import json
from dataclasses import asdict
from secrets import randbits
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from rappor_cli.progress import progress_bar
from simulations.experiments.plan_check import Check, cases, check, drawn_cases


def plan_check(
    runs: Annotated[int, typer.Option(min=1, help="Windows of each setting.")] = 100,
    first: Annotated[int, typer.Option(min=1, help="Setting to begin with.")] = 1,
    last: Annotated[int, typer.Option(min=1, help="Setting to end with.")] = 60,
    drawn: Annotated[
        int, typer.Option(min=0, help="So many settings drawn at random, in place of the grid.")
    ] = 0,
    settings_seed: Annotated[int, typer.Option(min=0, help="Of the settings drawn.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat; otherwise fresh.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Detection of placed values, predicted and simulated, over a grid of settings."""
    if first > last:
        raise typer.BadParameter(f"--first {first} is above --last {last}")
    seed = randbits(32) if seed is None else seed
    rng, rows = np.random.default_rng(seed), list[Check]()
    settings = drawn_cases(drawn, settings_seed) if drawn else cases()
    wanted = settings[first - 1 : last]
    with progress_bar("settings", len(wanted)) as advance:
        for case in wanted:
            rows.append(check(case, runs, rng))
            advance(1)
    errors = [abs(row.error) for row in rows]
    worst, mean = max(errors), sum(errors) / len(errors)
    if as_json:
        told = {"seed": seed, "worst": worst, "mean": mean, "rows": [asdict(row) for row in rows]}
        print(json.dumps(told))
        return
    table = Table(title=f"plan, seed {seed}: worst {worst:.3f}, mean {mean:.3f}")
    headings = (
        "setting",
        "share",
        "predicted",
        "simulated",
        "noise",
        "found / predicted",
        "inside",
    )
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.name, f"{row.share:.4f}", f"{row.predicted:.3f}", f"{row.simulated:.3f}",
            f"{row.noise:.3f}", f"{row.found:.1f} / {row.expected:.1f}", f"{row.inside:.2f}",
        )  # fmt: skip
    Console(width=180).print(table)
