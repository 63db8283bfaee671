"""`rappor simulate location-maps | location-moves | location-large`: maps of drawn cities.

A year by mode; changes where people move together; which map is shown where cells are too many
for deviations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from secrets import randbits
from typing import Annotated, Any, cast

import numpy as np
import typer

from rappor_cli import options as shared
from rappor_cli.figures import known_names, print_figures
from rappor_cli.progress import progress_bar
from simulations.location import held_maps, large_maps, moves

YEAR_HEADINGS = ("world", "mode", "cells", "devices", "epsilon", "off", "least-most", "held",
                 "other", "even map", "even months", "s")  # fmt: skip
MOVES_HEADINGS = ("mode", "cells", "devices", "world", "moved", f"top {moves.TOP} covered", "worst",
                  "all", "detected", "wrong sign", "right of strong", "series detected",
                  "festivals", "TV", "L-OSUE", "BiLOLOHA", "OUE", "s")  # fmt: skip
LARGE_HEADINGS = ("world", "cells", "devices", *large_maps.WAYS, "rejected", "shown", "TV shown",
                  "over the best", "s")  # fmt: skip

Sides = Annotated[
    list[int], typer.Option("--side", min=4, max=50, help="Cells of a side; may be repeated.")
]
Crowds = Annotated[
    list[int], typer.Option("--devices", min=1_000, help="Sizes of crowds; may be repeated.")
]
Advance = Callable[[int], None]
MapRow = dict[str, Any]


def location_maps(
    world: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(held_maps.WORLDS)}; may be repeated."),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {'; '.join(held_maps.MODES)}; may be repeated."),
    ] = None,
    side: Sides = [13],  # noqa: B006 - typer copies it
    epsilon: Annotated[
        list[float], typer.Option(min=0.1, help="For life, of one slot; may be repeated.")
    ] = [2.0],  # noqa: B006
    devices: Annotated[int, typer.Option(min=1_000, help="Size of the crowd.")] = 100_000,
    draws: Annotated[int, typer.Option(min=1, help="Years of each setting.")] = 2,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """Twelve monthly maps by mode: total variation from where those who were seen were."""
    known_names(world, held_maps.WORLDS, "--world")
    known_names(mode, held_maps.MODES, "--mode")
    worlds, modes = cast(list[held_maps.World], world), cast(list[held_maps.Mode], mode)
    settings = held_maps.settings_of(
        worlds or held_maps.WORLDS, modes or held_maps.MODES, side, epsilon, devices
    )
    _study(
        ("years", len(settings) * draws),
        lambda rng, advance: held_maps.years(settings, draws, rng, advance),
        lambda seed: f"twelve months, seed {seed}, {draws} years of each",
        YEAR_HEADINGS, _year_cells, seed, as_json=as_json, as_markdown=as_markdown,
    )  # fmt: skip


def location_moves(
    mode: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(moves.MODES)}; may be repeated.")
    ] = None,
    side: Sides = [13],  # noqa: B006
    devices: Crowds = [20_000, 100_000, 200_000],  # noqa: B006
    moved: Annotated[
        list[float], typer.Option(min=0.01, max=0.9, help="Shares that move; may be repeated.")
    ] = [0.1, 0.3, 0.5],  # noqa: B006
    series: Annotated[int, typer.Option(min=1, help="Series of each setting.")] = 5,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """Coverage, flags and distance of maps in worlds that move: district, festival, drift, none."""
    known_names(mode, tuple(moves.MODES), "--mode")
    settings = moves.settings_of(mode or tuple(moves.MODES), side, devices, moved)
    _study(
        ("series", len(settings) * series),
        lambda rng, advance: moves.moving_worlds(settings, series, rng, advance),
        lambda seed: f"six weeks, seed {seed}, {series} series of each",
        MOVES_HEADINGS, _moves_cells, seed, as_json=as_json, as_markdown=as_markdown,
    )  # fmt: skip


def location_large(
    world: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(large_maps.WORLDS)}; may be repeated."),
    ] = None,
    side: Annotated[int, typer.Option(min=4, max=200, help="Cells of a side.")] = 100,
    devices: Crowds = [20_000, 200_000],  # noqa: B006
    cohorts: Annotated[int, typer.Option(min=16, help="Of 32 bits each.")] = 128,
    budget: Annotated[float, typer.Option(min=0.1, max=10, help="Epsilon of a report.")] = 4.0,
    draws: Annotated[int, typer.Option(min=1, help="Of each world and size.")] = 1,
    seed: shared.Seed = None,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """The last of four weeks mapped in every way, and the map that is shown of it."""
    known_names(world, large_maps.WORLDS, "--world")
    settings = [
        large_maps.Setting(one, side, number, cohorts, budget)
        for one in large_maps.WORLDS
        if one in (world or large_maps.WORLDS)
        for number in devices
    ]
    _study(
        ("worlds", len(settings) * draws),
        lambda rng, advance: large_maps.large_maps(settings, draws, rng, advance),
        lambda seed: f"four weeks, seed {seed}, {cohorts} cohorts, epsilon {budget:g}",
        LARGE_HEADINGS, _large_cells, seed, as_json=as_json, as_markdown=as_markdown,
    )  # fmt: skip


def _study(
    bar: tuple[str, int],
    measure: Callable[[np.random.Generator, Advance], list[MapRow]],
    title: Callable[[int], str],
    headings: Sequence[str],
    cells: Callable[[MapRow], list[str]],
    seed: int | None,
    *,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Measure behind a progress bar, and print the rows. seed: None for fresh draws."""
    seed = randbits(32) if seed is None else seed
    with progress_bar(*bar) as advance:
        rows = measure(np.random.default_rng(seed), advance)
    if as_json:
        print(json.dumps({"seed": seed, "rows": rows}))
        return
    print_figures(title(seed), headings, list(map(cells, rows)), as_markdown=as_markdown)


def _year_cells(row: MapRow) -> list[str]:
    return [
        row["world"], row["mode"], f"{row['cells']:,}", f"{row['devices']:,}",
        f"{row['epsilon']:.2f}", f"{row['off']:.3f}", f"{row['least']:.3f}-{row['most']:.3f}",
        f"{row['held']:.3f}", f"{row['other']:.0%}", f"{row['even']:.3f}", f"{row['flat']:g}",
        f"{row['seconds']:.1f}",
    ]  # fmt: skip


def _moves_cells(row: MapRow) -> list[str]:
    parts = [row[name] for name in ("covered", "covered_worst", "covered_all")]
    distances = [row[name] for name in ("distance", "L-OSUE", "BiLOLOHA", "OUE")]
    festivals = f"{row['events']} of {row['series']}" if row["world"] == "festival" else "-"
    return [
        row["mode"], f"{row['cells']:,}", f"{row['devices']:,}", row["world"], f"{row['moved']:g}",
        *(f"{part:.3f}" for part in parts), str(row["detected"]), str(row["wrong"]),
        f"{row['right']} of {row['strong']}", f"{row['series_detected']} of {row['series']}",
        festivals, *(f"{part:.3f}" for part in distances), f"{row['seconds']:.1f}",
    ]  # fmt: skip


def _large_cells(row: MapRow) -> list[str]:
    return [
        row["world"], f"{row['cells']:,}", f"{row['devices']:,}",
        *(_known(row[way]) for way in large_maps.WAYS), ", ".join(row["rejected"]) or "-",
        row["source"], f"{row['shown']:.3f}", _known(row["over_best"]), f"{row['seconds']:.1f}",
    ]  # fmt: skip


def _known(off: float | None) -> str:
    return "-" if off is None else f"{off:.3f}"
