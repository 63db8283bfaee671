"""`rappor simulate location-large`: which map is shown where cells are too many for deviations."""

from __future__ import annotations

import json
from secrets import randbits
from typing import Annotated, Any

import numpy as np
import typer

from rappor_cli.figures import known_names, print_figures
from rappor_cli.progress import progress_bar
from simulations.location.large_maps import WAYS, WORLDS, Setting, large_maps

HEADINGS = ("world", "cells", "devices", *WAYS, "rejected", "shown", "TV shown", "over the best",
            "s")  # fmt: skip


def location_large(
    world: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(WORLDS)}; may be repeated.")
    ] = None,
    side: Annotated[int, typer.Option(min=4, max=200, help="Cells of a side.")] = 100,
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Sizes of crowds; may be repeated.")
    ] = [20_000, 200_000],  # noqa: B006 - typer copies it
    cohorts: Annotated[int, typer.Option(min=16, help="Of 32 bits each.")] = 128,
    budget: Annotated[float, typer.Option(min=0.1, max=10, help="Epsilon of a report.")] = 4.0,
    draws: Annotated[int, typer.Option(min=1, help="Of each world and size.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat; otherwise fresh.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As in the docs.")] = False,
) -> None:
    """The last of four weeks mapped in every way, and the map that is shown of it."""
    known_names(world, WORLDS, "--world")
    seed = randbits(32) if seed is None else seed
    chosen = [one for one in WORLDS if one in (world or WORLDS)]
    settings = [Setting(one, side, number, cohorts, budget) for one in chosen for number in devices]
    with progress_bar("worlds", len(settings) * draws) as advance:
        rows = large_maps(settings, draws, np.random.default_rng(seed), advance)
    if as_json:
        print(json.dumps({"seed": seed, "rows": rows}))
        return
    title = f"four weeks, seed {seed}, {cohorts} cohorts, epsilon {budget:g}"
    print_figures(title, HEADINGS, list(map(_cells, rows)), as_markdown=as_markdown)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["world"],
        f"{row['cells']:,}",
        f"{row['devices']:,}",
        *(_known(row[way]) for way in WAYS),
        ", ".join(row["rejected"]) or "-",
        row["source"],
        f"{row['shown']:.3f}",
        _known(row["over_best"]),
        f"{row['seconds']:.1f}",
    ]


def _known(off: float | None) -> str:
    return "-" if off is None else f"{off:.3f}"
