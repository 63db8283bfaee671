"""`rappor simulate`: experiments with a known truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from decoder.options import DecodeOptions
from rappor_cli.association_study import association
from rappor_cli.calibration import decoder_calibration
from rappor_cli.decode import CorrectionName, MethodName
from rappor_cli.linkage import batch_linkage
from rappor_cli.location import location, location_attacks, location_coverage
from rappor_cli.plan_check import plan_check
from rappor_cli.simulate_discovery import discovery
from rappor_cli.simulate_fleet import fleet
from rappor_cli.simulate_numbers import numbers
from simulations.experiments import paper
from simulations.experiments.figures import draw_experiments
from simulations.experiments.paper import Experiment

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Run a published or calibration experiment, from fresh draws.",
)

app.command("decoder-calibration")(decoder_calibration)
app.command("association")(association)
app.command("location")(location)
app.command("location-attacks")(location_attacks)
app.command("batch-linkage")(batch_linkage)
app.command("location-coverage")(location_coverage)
app.command("plan")(plan_check)
app.command("numbers")(numbers)
app.command("discovery")(discovery)
app.command("fleet")(fleet)

Seed = Annotated[
    int | None, typer.Option(min=0, help="Repeat a run exactly; otherwise the draws are fresh.")
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder for the picture.")]
Method = Annotated[MethodName, typer.Option(help="Estimator.")]
Correction = Annotated[CorrectionName, typer.Option(help="What is promised about the list.")]
Alpha = Annotated[float, typer.Option(help="Level of the correction.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]
DEFAULT_OUTPUT = Path("simulation-output")
HEADINGS = {
    "reports": "reports",
    "held": "values_held",
    "found": "found_true",
    "false": "found_false",
    "missed": "found_missed",
    "coverage": "interval_coverage",
    "visible share": "smallest_visible_share",
    "epsilon_one": "epsilon_one",
}


@app.command()
def normal(
    reports: Annotated[
        list[int], typer.Option(min=1, help="Number of reports; may be given several times.")
    ] = list(paper.NORMAL_REPORTS),  # noqa: B006 - typer copies it
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    correction: Correction = CorrectionName.BONFERRONI,
    alpha: Alpha = 0.05,
    as_json: AsJson = False,
) -> None:
    """Basic one-time RAPPOR on a normal variable (mean 50, sd 10), p = .5, q = .75."""
    rng = np.random.default_rng(seed)
    options = DecodeOptions(correction=correction.value, alpha=alpha)
    experiments = [paper.normal(number, rng, options) for number in reports]
    _show("normal", experiments, output, as_json)


@app.command()
def exponential(
    reports: Annotated[
        int, typer.Option(min=1, help="Number of reports.")
    ] = paper.EXPONENTIAL_REPORTS,
    seed: Seed = None,
    output: Output = DEFAULT_OUTPUT,
    method: Method = MethodName.CAVITY,
    correction: Correction = CorrectionName.BONFERRONI,
    alpha: Alpha = 0.05,
    as_json: AsJson = False,
) -> None:
    """100 exponentially falling shares among 200 candidates: k=128, h=2, m=16, f=p=.5, q=.75."""
    options = DecodeOptions(method=method.value, correction=correction.value, alpha=alpha)
    experiment = paper.exponential(reports, np.random.default_rng(seed), options)
    _show("exponential", [experiment], output, as_json)


def _show(name: str, experiments: Sequence[Experiment], output: Path, as_json: bool) -> None:
    output.mkdir(parents=True, exist_ok=True)
    picture = output / f"{name}.png"
    draw_experiments(experiments, picture)
    rows = [_row(experiment) for experiment in experiments]
    if as_json:
        print(json.dumps({"experiment": name, "picture": str(picture), "rows": rows}))
        return
    table = Table(title=f"Experiment: {name}")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(_cell(row[key]) for key in HEADINGS.values()))
    console = Console()
    console.print(table)
    console.print(f"picture: {picture}", soft_wrap=True)


def _cell(value: str | int | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"


def _row(experiment: Experiment) -> dict[str, str | int | float]:
    summary = experiment.decoding.summary
    return {
        "name": experiment.name,
        "reports": summary.num_reports,
        "values_held": int((experiment.true_shares > 0).sum()),
        "found_true": experiment.true_positives,
        "found_false": experiment.false_positives,
        "found_missed": experiment.missed,
        "interval_coverage": experiment.coverage,
        "smallest_visible_share": summary.visible_share,
        "epsilon_one": summary.epsilon_one,
    }
