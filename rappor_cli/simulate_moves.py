"""`rappor simulate location-moves`: changes of maps where people move together."""

from __future__ import annotations

import json
from secrets import randbits
from typing import Annotated, Any

import numpy as np
import typer

from rappor_cli.figures import known_names, print_figures
from rappor_cli.progress import progress_bar
from simulations.location.moves import MODES, TOP, moving_worlds, settings_of

HEADINGS = ("mode", "cells", "devices", "world", "moved", f"top {TOP} covered", "worst", "all",
            "told", "wrong sign", "right of strong", "series told", "festivals", "TV", "L-OSUE",
            "BiLOLOHA", "OUE", "s")  # fmt: skip


def location_moves(
    mode: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(MODES)}; may be repeated.")
    ] = None,
    side: Annotated[
        list[int], typer.Option(min=4, max=50, help="Cells of a side; may be repeated.")
    ] = [13],  # noqa: B006 - typer copies it
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Sizes of crowds; may be repeated.")
    ] = [20_000, 100_000, 200_000],  # noqa: B006
    moved: Annotated[
        list[float], typer.Option(min=0.01, max=0.9, help="Shares that move; may be repeated.")
    ] = [0.1, 0.3, 0.5],  # noqa: B006
    series: Annotated[int, typer.Option(min=1, help="Series of each setting.")] = 5,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat; otherwise fresh.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As in the docs.")] = False,
) -> None:
    """Coverage, flags and distance of maps in worlds that move: district, festival, drift, none."""
    known_names(mode, tuple(MODES), "--mode")
    seed = randbits(32) if seed is None else seed
    settings = settings_of(mode or tuple(MODES), side, devices, moved)
    with progress_bar("series", len(settings) * series) as advance:
        rows = moving_worlds(settings, series, np.random.default_rng(seed), advance)
    if as_json:
        print(json.dumps({"seed": seed, "rows": rows}))
        return
    title = f"six weeks, seed {seed}, {series} series of each"
    print_figures(title, HEADINGS, list(map(_cells, rows)), as_markdown=as_markdown)


def _cells(row: dict[str, Any]) -> list[str]:
    parts = [row[name] for name in ("covered", "covered_worst", "covered_all")]
    distances = [row[name] for name in ("distance", "L-OSUE", "BiLOLOHA", "OUE")]
    festivals = f"{row['events']} of {row['series']}" if row["world"] == "festival" else "-"
    return [
        row["mode"],
        f"{row['cells']:,}",
        f"{row['devices']:,}",
        row["world"],
        f"{row['moved']:g}",
        *(f"{part:.3f}" for part in parts),
        str(row["told"]),
        str(row["wrong"]),
        f"{row['right']} of {row['strong']}",
        f"{row['series_told']} of {row['series']}",
        festivals,
        *(f"{part:.3f}" for part in distances),
        f"{row['seconds']:.1f}",
    ]
