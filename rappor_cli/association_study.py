"""`rappor simulate association`: pairs, moments and EM on the same populations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from rappor_cli import options as shared
from simulations.association.shapes import SHAPES
from simulations.association.study import COUPLED, StudyRow, StudySize, association_study


def association(
    reports: Annotated[int, typer.Option(min=1_000, help="Devices, one report each.")] = 100_000,
    runs: Annotated[int, typer.Option(min=2, help="Tables for pairs and moments.")] = 20,
    rival_runs: Annotated[int, typer.Option(min=0, help="Of these, with both EMs.")] = 2,
    tests: Annotated[int, typer.Option(min=2, help="Independent tables for the level.")] = 200,
    coupled: Annotated[
        float, typer.Option(min=0, max=1, help="Part of the mass that is coupled.")
    ] = COUPLED,
    shape: Annotated[
        Literal["10x10", "100x20", "500x2"], typer.Option(help="Values of each metric.")
    ] = "10x10",
    seed: shared.Seed = None,
    as_json: shared.Json = False,
) -> None:
    """Joint tables: a pair metric against two linked metrics and google's EM, at equal epsilon."""
    rng = np.random.default_rng(seed)
    counts = StudySize(runs, min(rival_runs, runs), tests)
    rows = list(association_study(reports, counts, rng, coupled, SHAPES[shape]))
    if as_json:
        print(json.dumps([_plain(row) for row in rows], allow_nan=False))
        return
    title = f"{shape}, {coupled:.0%} of the mass coupled; level: none, power: a tenth"
    Console().print(_printed(rows, title))


def _printed(rows: Iterable[StudyRow], title: str) -> Table:
    table = Table(title=title)
    for name in ("noise", "epsilon", "reports", "method", "quantity", "runs", "mean", "error"):
        table.add_column(name, justify="left" if name in ("noise", "method") else "right")
    for row in rows:
        epsilon = "" if math.isnan(row.epsilon_one) else f"{row.epsilon_one:.2f}"
        error = "" if math.isnan(row.value.error) else f"{row.value.error:.4f}"
        numbers = f"{row.value.mean:.3f}", error
        table.add_row(row.setting, epsilon, f"{row.reports:,}", row.method, row.quantity,
                      str(row.runs), *numbers)  # fmt: skip
    return table


def _plain(row: StudyRow) -> dict[str, object]:
    fields = asdict(row) | asdict(row.value)
    del fields["value"]
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in fields.items()
    }
