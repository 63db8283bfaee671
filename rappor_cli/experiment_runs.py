"""Runs of a `rappor simulate` experiment, with a table, a manifest and files.

The manifest contains the seed and all figures.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Signature, signature
from pathlib import Path
from secrets import randbits
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from decoder.files import finite, make_folder, probe_folder
from decoder.kinds.result import versions
from rappor_cli import options as shared
from rappor_cli.text import text_table
from simulations.outcome import ExperimentOutcome

_WIDTH = 320  # columns; every table of figures is narrower
DEFAULT_OUTPUT = Path("simulation-output")


@dataclass(frozen=True)
class ExperimentRun:
    """One run of an experiment: its seed, and the generator for that seed."""

    seed: int
    rng: np.random.Generator


Experiment = Callable[..., ExperimentOutcome]  # arguments: a run and the experiment's settings


def command_of(name: str, experiment: Experiment, small: Mapping[str, Any]) -> Callable[..., None]:
    """Return the command for an experiment: its own settings, then the shared options.

    Args:
        name: The name of the command.
        experiment: A function whose parameters after the run are typer options.
        small: The settings for `--small` and for `make simulate`.
    """

    def command(
        *, is_small: bool, seed: int | None, output: Path, as_json: bool, as_markdown: bool,
        **settings: Any,
    ) -> None:  # fmt: skip
        settings |= small if is_small else {}
        probe_folder(output)  # before the work starts
        number = randbits(32) if seed is None else seed
        run = ExperimentRun(number, np.random.default_rng(number))
        _present(name, experiment(run, **settings), settings, number, output, as_json, as_markdown)

    _, *settings_of = signature(experiment, eval_str=True).parameters.values()
    parameters = [*settings_of, *signature(_shared, eval_str=True).parameters.values()]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = experiment.__doc__
    setattr(command, "__signature__", Signature(parameters))  # noqa: B010 - no attribute for mypy
    return command


def _shared(
    is_small: Annotated[
        bool, typer.Option("--small", help="Use small settings for a quick, rough result.")
    ] = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """Define the options that all experiments share."""


def _present(
    name: str,
    outcome: ExperimentOutcome,
    settings: Mapping[str, Any],
    seed: int,
    output: Path,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Write the files of an experiment and print its table."""
    make_folder(output)
    for file, text in outcome.files.items():
        (output / file).write_text(text, encoding="utf-8")
    path = output / f"{name}-manifest.json"
    manifest = json.dumps(manifest_of(name, outcome, settings, seed), indent=2, allow_nan=False)
    path.write_text(manifest + "\n", encoding="utf-8")
    if as_json:
        print(manifest)
    elif as_markdown:
        print("\n".join(markdown_lines(outcome.headings, outcome.lines)))
    else:
        console = Console(width=max(Console().width, _WIDTH))
        console.print(text_table(f"{name}, seed {seed}", outcome.headings, outcome.lines))
        for note in outcome.notes:
            console.print(note)
        console.print(f"manifest: {path}", soft_wrap=True)


def manifest_of(
    name: str, outcome: ExperimentOutcome, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Return the manifest of an experiment: settings, versions and every figure.

    An undefined figure is null.
    """
    return {
        "experiment": name,
        "seed": seed,
        "settings": {
            key: str(value) if isinstance(value, Path) else value
            for key, value in settings.items()
            if key != "on"  # engines give the same figures
        },
        "rows": [finite(dict(row)) for row in outcome.rows],
        "versions": versions(),
    }


def markdown_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, as in the docs."""
    lines = [headings, ("---",) * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
