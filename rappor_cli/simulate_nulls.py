"""`rappor simulate discovery --nulls N`: how often a string is named that nobody holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from rappor_cli.figures import known_names, print_figures
from rappor_cli.progress import progress_bar
from simulations.experiments.discovery_nulls import KINDS, NullRow, null_study

HEADINGS = (
    "population",
    "epsilon",
    "reports",
    "named a wrong one",
    "chance, 95 % interval",
    "strings tested",
    "processor s",
)


def print_nulls(
    settings: Sequence[tuple[float, int]],
    populations: int,
    rng: np.random.Generator,
    kinds: Sequence[str],
    style: str,
    *,
    small: bool,
) -> None:
    """Run the study of false discoveries and print it. style: json, markdown or table."""
    known_names(kinds, tuple(KINDS), "--kind")
    total = len(settings) * populations * len(kinds or KINDS)
    with progress_bar("populations", total) as advance:
        study = null_study(settings, populations, rng, small=small, kinds=kinds, progress=advance)
        rows = list(study)
    if style == "json":
        print(json.dumps([asdict(row) for row in rows]))
        return
    title = f"nothing to find: {populations:,} populations of each kind"
    markdown = style == "markdown"
    print_figures(title, HEADINGS, list(map(_cells, rows)), as_markdown=markdown, left=HEADINGS[:1])


def _cells(row: NullRow) -> tuple[str, ...]:
    return (
        row.kind,
        f"{row.epsilon:g}",
        f"{row.reports:,}",
        f"{row.named} of {row.populations:,}",
        f"{100 * row.low:.1f} to {100 * row.high:.1f} %",
        f"{row.tested:.0f}",
        f"{row.seconds:.2f}",
    )
