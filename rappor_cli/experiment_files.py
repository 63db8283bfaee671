"""Show an experiment: a table, a manifest with seed and figures, and a picture if it has one."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import randbits
from typing import Any, TypeVar

import numpy as np
from rich.table import Table

from decoder.files import make_folder, probe_folder
from rappor_cli.progress import progress_bar
from rappor_cli.text import wide_console

T = TypeVar("T")
_LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")


@dataclass(frozen=True)
class ExperimentRun:
    """An experiment that was run.

    name: of the command.  title: over the table.  settings: what it was run with; with the seed it
    can be run again.  columns: heading, key of a row, and format.  rows: all figures, plain.
    notes: sentences under the table.  draw: writes the picture, of an experiment that has one.
    """

    name: str
    title: str
    settings: Mapping[str, Any]
    columns: Sequence[tuple[str, str, str]]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    draw: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class ExperimentOptions:
    """Options that all experiments share. seed: None for fresh draws. output: folder."""

    seed: int | None
    output: Path
    as_json: bool


def run_experiment(
    asked: ExperimentOptions,
    bar: tuple[str, int],
    measure: Callable[[np.random.Generator, Callable[[int], None]], T],
    outcome: Callable[[T], ExperimentRun],
) -> None:
    """Measure behind a progress bar, then write the files and print the table.

    Args:
        asked: of the command.
        bar: what the bar counts, and how many there are.
        measure: from a generator of that seed, and the function that moves the bar, to figures.
        outcome: from the figures to what is shown.

    Raises:
        RapporError: where the folder cannot be written, before anything is measured.
    """
    probe_folder(asked.output)
    seed = randbits(32) if asked.seed is None else asked.seed
    with progress_bar(*bar) as advance:
        found = measure(np.random.default_rng(seed), advance)
    show(outcome(found), seed, asked.output, as_json=asked.as_json)


def show(outcome: ExperimentRun, seed: int, output: Path, *, as_json: bool) -> None:
    """Write NAME-manifest.json, and NAME.png, to `output`; print the table, or the manifest."""
    make_folder(output)
    path = output / f"{outcome.name}-manifest.json"
    manifest, files = manifest_of(outcome, seed), f"manifest: {path}"
    if outcome.draw is not None:
        picture = output / f"{outcome.name}.png"
        outcome.draw(picture)
        manifest["picture_sha256"] = sha256(picture.read_bytes()).hexdigest()
        files = f"picture: {picture}, {files}"
    text = json.dumps(manifest, indent=2, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
        return
    table = Table(title=f"{outcome.title}, seed {seed}")
    for heading, _, form in outcome.columns:
        table.add_column(heading, justify="left" if form == "s" else "right")
    for row in outcome.rows:
        table.add_row(*(_cell(row[key], form) for _, key, form in outcome.columns))
    console = wide_console()
    console.print(table)
    for note in outcome.notes:
        console.print(note)
    console.print(files, soft_wrap=True)


def manifest_of(outcome: ExperimentRun, seed: int) -> dict[str, Any]:
    """The manifest of an experiment: command, options, versions and every figure; null where one
    is not defined."""
    return {
        "experiment": outcome.name,
        "seed": seed,
        "settings": dict(outcome.settings),
        "rows": [{key: _plain(value) for key, value in row.items()} for row in outcome.rows],
        "versions": {name: _version(name) for name in _LIBRARIES}
        | {"python": platform.python_version()},
    }


def _cell(value: Any, form: str) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "-"
    return format(value, form)


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
