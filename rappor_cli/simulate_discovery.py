"""`rappor simulate discovery`: find strings without a list, beside PEM."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from secrets import randbits
from typing import Annotated, Any

import numpy as np
import typer

from decoder.candidates.lists import Candidates
from rappor_cli import options as shared
from rappor_cli.figures import print_figures
from rappor_cli.progress import progress_bar
from rappor_cli.simulate_nulls import print_nulls
from simulations.experiments.discovery import (
    NUM_STRINGS,
    OURS,
    Row,
    compare,
    drawn_strings,
)

HEADINGS = (
    "epsilon",
    "reports",
    "method",
    "found",
    "of top 10",
    "of top 20",
    "of top 50",
    "runs with a false one",
    "covered",
    "processor s",
)


def discovery(
    epsilon: Annotated[list[float], typer.Option(help="Nats; may be given several times.")] = [  # noqa: B006 - typer copies it
        4.0,
        2.0,
        1.0,
    ],
    reports: Annotated[list[int], typer.Option(min=1_000, help="Devices, one report each.")] = [  # noqa: B006
        1_000_000,
        100_000,
    ],
    runs: Annotated[int, typer.Option(min=1, help="Populations of each setting.")] = 5,
    names: Annotated[
        Path | None,
        typer.Option(help="Strings that devices hold, a line each; else drawn from the code."),
    ] = None,
    rivals: Annotated[
        bool, typer.Option(help="Also run PEM, the best of the published methods.")
    ] = True,
    flat: Annotated[bool, typer.Option(help="Equal shares: nothing is frequent.")] = False,
    nulls: Annotated[
        int, typer.Option(min=0, help="Instead, populations without a frequent string, by kind.")
    ] = 0,
    kind: Annotated[
        list[str] | None, typer.Option(help="Of --nulls: one kind; may be given several times.")
    ] = None,
    small: Annotated[
        bool, typer.Option(help="Of --nulls: a metric that is fast to search.")
    ] = False,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """Frequent strings that are found, false ones, coverage: means with standard errors."""
    seed = randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    if nulls:
        settings = [(e, n) for n in reports for e in epsilon]
        style = "json" if as_json else "markdown" if as_markdown else "table"
        print_nulls(settings, nulls, rng, kind or (), style, small=small)
        return
    strings = _strings(names, rng)
    settings = [(e, n) for n in reports for e in epsilon]
    total = len(settings) * runs * (1 + rivals)
    with progress_bar("runs", total) as advance:
        rows = compare(strings, settings, runs, rng, rivals=rivals, flat=flat, progress=advance)
    if as_json:
        print(json.dumps({"seed": seed, "strings": len(strings), "rows": list(map(asdict, rows))}))
        return
    title = f"discovery, seed {seed}, {len(strings):,} strings, {runs} runs"
    print_figures(title, HEADINGS, list(map(_cells, rows)), as_markdown=as_markdown)


def _strings(path: Path | None, rng: np.random.Generator) -> list[str]:
    if path is None:
        return drawn_strings(NUM_STRINGS, rng)
    return [value.decode() for value in Candidates.from_file(path).values]


def _cells(row: Row) -> tuple[str, ...]:
    ours = row.method == OURS
    false = [float(run.false > 0) for run in row.runs]
    covered = [float(hit) for run in row.runs for hit in run.covered]
    return (
        f"{row.epsilon:g}",
        f"{row.num_reports:,}",
        row.method,
        _mean([run.found for run in row.runs]),
        *(_mean([run.first[place] for run in row.runs]) for place in range(3)),
        _mean(false, 3),
        _mean(covered, 3) if ours and covered else "-",
        f"{np.mean([run.seconds for run in row.runs]):.1f}",
    )


def _mean(values: Sequence[Any], digits: int = 1) -> str:
    """Mean ± standard error."""
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    said = f"{float(np.mean(values)):.{digits}f}"
    return said if math.isnan(error) else f"{said} ± {error:.{digits + (digits < 2)}f}"
