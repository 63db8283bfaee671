"""`rappor simulate NAME`: experiments with a known truth, from one register."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from rappor_cli import options as shared
from rappor_cli.experiment_files import Presentation, run_experiment
from rappor_cli.experiments import EXPERIMENTS, RegisteredExperiment
from rappor_cli.linkage import batch_linkage
from rappor_cli.location import location_attacks
from rappor_cli.options import command_group

app = command_group(
    "Run a published or calibration experiment, from fresh draws.",
    "rappor simulate normal --reports 10000",
)
DEFAULT_OUTPUT = Path("simulation-output")


def _common(
    small: Annotated[
        bool, typer.Option("--small", help="A quick look in place of the settings; figures rough.")
    ] = False,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    as_json: shared.Json = False,
    as_markdown: shared.Markdown = False,
) -> None:
    """The options of every experiment."""


def command_of(name: str, entry: RegisteredExperiment) -> Callable[..., None]:
    """The command of an experiment: its own settings, then the options that all share."""

    def command(
        *, small: bool, seed: int | None, output: Path, as_json: bool, as_markdown: bool,
        **settings: Any,
    ) -> None:  # fmt: skip
        settings |= entry.small if small else {}
        shown = Presentation(seed, output, as_json, as_markdown)
        run_experiment(name, entry.declare(**settings), settings, shown)

    both = [signature(one, eval_str=True).parameters for one in (entry.declare, _common)]
    parameters = [parameter for some in both for parameter in some.values()]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = entry.declare.__doc__
    setattr(command, "__signature__", Signature(parameters))  # noqa: B010 - no attribute for mypy
    return command


for experiment, entry in EXPERIMENTS.items():
    app.command(experiment)(command_of(experiment, entry))
app.command("location-attacks")(location_attacks)
app.command("batch-linkage")(batch_linkage)
