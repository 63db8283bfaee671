"""Run an experiment, and show it: a table, a manifest with seed and figures, files."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import randbits
from typing import Any

import numpy as np
import typer
from rich.table import Table

from decoder.files import make_folder, probe_folder
from rappor_cli.progress import progress_bar
from rappor_cli.text import wide_console

Advance = Callable[[int], None]
_LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class ExperimentOutcome:
    """What an experiment found.

    rows: all figures, plain.  columns: heading, key of a row, and format.  lines: cells in place
    of those of the rows.  notes: sentences under the table.  files: further texts by name.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[tuple[str, str, str]]
    lines: Sequence[Sequence[str]] | None = None
    notes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """An experiment with its settings, before it is run.

    bar: what the progress bar counts, and how many there are.  measure: from a generator, and the
    function that moves the bar, to the outcome.
    """

    bar: tuple[str, int]
    measure: Callable[[np.random.Generator, Advance], ExperimentOutcome]


@dataclass(frozen=True)
class Presentation:
    """Options that all experiments share. seed: None for fresh draws. output: folder."""

    seed: int | None
    output: Path
    as_json: bool
    as_markdown: bool


def run_experiment(
    name: str, declared: Declared, settings: Mapping[str, Any], shown: Presentation
) -> None:
    """Measure behind a progress bar, then write the files and print the table.

    Args:
        name: of the experiment.
        declared: what to measure.
        settings: options that it was declared with; with the seed it can be run again.
        shown: how and where it is shown.

    Raises:
        RapporError: where the folder cannot be written, before anything is measured.
    """
    probe_folder(shown.output)
    seed = randbits(32) if shown.seed is None else shown.seed
    with progress_bar(*declared.bar) as advance:
        outcome = declared.measure(np.random.default_rng(seed), advance)
    make_folder(shown.output)
    for file, text in outcome.files.items():
        (shown.output / file).write_text(text, encoding="utf-8")
    told = manifest_of(name, outcome, settings, seed)
    path = shown.output / f"{name}-manifest.json"
    manifest = json.dumps(told, indent=2, allow_nan=False)
    path.write_text(manifest + "\n", encoding="utf-8")
    if shown.as_json:
        print(manifest)
        return
    lines = outcome.lines or [
        [_cell(row[key], form) for _, key, form in outcome.columns] for row in outcome.rows
    ]
    left = [heading for heading, _, form in outcome.columns if form == "s"]
    headings = [heading for heading, *_ in outcome.columns]
    title = f"{name}, seed {seed}"
    print_figures(title, headings, lines, as_markdown=shown.as_markdown, left=left)
    if not shown.as_markdown:
        console = wide_console()
        for note in outcome.notes:
            console.print(note)
        console.print(f"manifest: {path}", soft_wrap=True)


def seed_of(rng: np.random.Generator) -> int:
    """The seed that a generator was made from, for draws that derive their own generators."""
    return int(rng.bit_generator.seed_seq.entropy)  # type: ignore[attr-defined]


def manifest_of(
    name: str, outcome: ExperimentOutcome, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """The manifest of an experiment: settings, versions and every figure; null where one is not
    defined."""
    return {
        "experiment": name,
        "seed": seed,
        "settings": {key: _setting(value) for key, value in settings.items()},
        "rows": [_plain(dict(row)) for row in outcome.rows],
        "versions": {name: _version(name) for name in _LIBRARIES}
        | {"python": platform.python_version()},
    }


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return format(value, form)


def _setting(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _plain(value: Any) -> Any:
    """The same with null where a figure is not defined: JSON has neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def known_names(given: Iterable[str] | None, names: Sequence[str], option: str) -> None:
    """Raise BadParameter if an option was given a name that does not exist."""
    unknown = sorted(set(given or ()) - set(names))
    if unknown:
        raise typer.BadParameter(f"{option} {unknown[0]!r} is not one of: {'; '.join(names)}")


def markdown_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table as in the docs."""
    lines = [headings, ("---",) * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def print_figures(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    as_markdown: bool,
    left: Sequence[str] = (),
) -> None:
    """Print a table of figures.

    Args:
        title: above it, on a terminal.
        headings: of the columns.
        rows: as many cells each.
        as_markdown: as in the docs.
        left: headings of the columns that hold text, which are not set to the right.
    """
    if as_markdown:
        print("\n".join(markdown_lines(headings, rows)))
        return
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    for row in rows:
        table.add_row(*row)
    wide_console().print(table)
