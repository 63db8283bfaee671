"""`rappor simulate location-maps`: maps of a year by mode, where people move or are often off."""

from __future__ import annotations

import json
from secrets import randbits
from typing import Annotated, Any, cast

import numpy as np
import typer

from rappor_cli.figures import known_names, print_figures
from rappor_cli.progress import progress_bar
from simulations.location.held_maps import MODES, WORLDS, Mode, World, settings_of, years

HEADINGS = ("world", "mode", "cells", "devices", "epsilon", "off", "least-most", "held", "other",
            "even map", "even months", "s")  # fmt: skip


def location_maps(
    world: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(WORLDS)}; may be repeated.")
    ] = None,
    mode: Annotated[
        list[str] | None, typer.Option(help=f"Of {'; '.join(MODES)}; may be repeated.")
    ] = None,
    side: Annotated[
        list[int], typer.Option(min=4, max=50, help="Cells of a side; may be repeated.")
    ] = [13],  # noqa: B006 - typer copies it
    epsilon: Annotated[
        list[float], typer.Option(min=0.1, help="For life, of one slot; may be repeated.")
    ] = [2.0],  # noqa: B006
    devices: Annotated[int, typer.Option(min=1_000, help="Size of the crowd.")] = 100_000,
    draws: Annotated[int, typer.Option(min=1, help="Years of each setting.")] = 2,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat; otherwise fresh.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As in the docs.")] = False,
) -> None:
    """Twelve monthly maps by mode: total variation from where those who were seen were."""
    known_names(world, WORLDS, "--world")
    known_names(mode, MODES, "--mode")
    seed = randbits(32) if seed is None else seed
    worlds, modes = cast(list[World], world), cast(list[Mode], mode)
    settings = settings_of(worlds or WORLDS, modes or MODES, side, epsilon, devices)
    with progress_bar("years", len(settings) * draws) as advance:
        rows = years(settings, draws, np.random.default_rng(seed), advance)
    if as_json:
        print(json.dumps({"seed": seed, "rows": rows}))
        return
    title = f"twelve months, seed {seed}, {draws} years of each"
    print_figures(title, HEADINGS, list(map(_cells, rows)), as_markdown=as_markdown)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["world"], row["mode"], f"{row['cells']:,}", f"{row['devices']:,}",
        f"{row['epsilon']:.2f}", f"{row['off']:.3f}", f"{row['least']:.3f}-{row['most']:.3f}",
        f"{row['held']:.3f}", f"{row['other']:.0%}", f"{row['even']:.3f}", f"{row['flat']:g}",
        f"{row['seconds']:.1f}",
    ]  # fmt: skip
