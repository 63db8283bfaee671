"""`rappor simulate decoder-calibration`: does the decoder keep its promises?"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from secrets import randbits
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rappor_cli.decode import MethodName
from rappor_cli.progress import progress_bar
from simulations.calibration import RULES, Cell, Row, RunScore, cells, run_cell, summarise


def decoder_calibration(
    runs: Annotated[int, typer.Option(min=0, help="Small runs by cell (25 cells).")] = 20,
    medium_runs: Annotated[int, typer.Option(min=0, help="Medium runs by cell.")] = 8,
    large_runs: Annotated[int, typer.Option(min=0, help="Large runs by cell.")] = 0,
    method: Annotated[MethodName, typer.Option(help="Estimator.")] = MethodName.CAVITY,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat; otherwise fresh.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Recall, false discoveries, coverage and null scores in the reference settings."""
    seed = randbits(32) if seed is None else seed
    sizes = {"small": runs, "medium": medium_runs, "large": large_runs}
    rows = summarise(_run(list(cells(sizes, seed)), method))
    if as_json:
        print(json.dumps({"seed": seed, "method": method.value, "rows": list(map(asdict, rows))}))
        return
    _print(rows, seed, method)


def _run(wanted: Sequence[Cell], method: MethodName) -> list[RunScore]:
    """All cells on all cores, largest first, in a fixed order of results."""
    task = partial(run_cell, method=method.value)
    with (
        ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool,
        progress_bar("runs", len(wanted)) as advance,
    ):
        jobs = [pool.submit(task, cell) for cell in wanted]
        for job in as_completed(jobs):
            job.result()
            advance(1)
    return [job.result() for job in jobs]


def _print(rows: Sequence[Row], seed: int, method: MethodName) -> None:
    console = Console(width=200)
    table = Table(
        title=f"decoder-calibration, {method.value}, seed {seed}: means over 5 distributions"
    )
    table.add_column("setting", no_wrap=True)
    table.add_column("runs", justify="right")
    for rule in RULES:
        table.add_column(f"{rule}\nrecall / FDP", justify="right", no_wrap=True)
    for heading in (
        "FWER\nbonferroni",
        "cover\nall",
        *(f"cover found\n{rule}" for rule in ("bh", "fdr", "fdr-eb")),
        "z² of\nwrong",
        "recall at R's\nfalse share",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row.size} {row.configuration}",
            str(row.runs),
            *(f"{row.recall[rule]:.4f} / {row.false_proportion[rule]:.3f}" for rule in RULES),
            f"{row.family_wise['bonferroni']:.3f}",
            f"{row.coverage:.3f}",
            *(f"{row.coverage_detected[rule]:.3f}" for rule in ("bh", "fdr", "fdr-eb")),
            f"{row.wrong_z_squared:.3f}",
            f"{row.recall_at_reference:.4f}",
        )
    console.print(table)
