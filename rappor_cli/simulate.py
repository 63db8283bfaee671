"""`rappor simulate`: experiments with a known truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from decoder.options import DecodeOptions
from rappor_cli import options as shared
from rappor_cli.calibration import decoder_calibration
from rappor_cli.experiment_files import ExperimentOptions, ExperimentRun, run_experiment
from rappor_cli.groups import command_group
from rappor_cli.linkage import batch_linkage
from rappor_cli.location import location_attacks, location_coverage
from rappor_cli.plan_check import plan_check
from rappor_cli.simulate_discovery import discovery
from rappor_cli.simulate_fleet import fleet
from rappor_cli.simulate_flows import flow_coverage, flows
from rappor_cli.simulate_maps import location_large, location_maps, location_moves
from rappor_cli.simulate_numbers import numbers
from rappor_cli.simulate_published import (
    homepages,
    longitudinal,
    parameters,
    poisoning,
    processes,
)
from rappor_cli.simulate_relay import relay
from simulations.experiments import paper
from simulations.experiments.figures import draw_experiments
from simulations.experiments.paper import Experiment

app = command_group(
    "Run a published or calibration experiment, from fresh draws.",
    "rappor simulate normal --reports 10000",
)

for experiment in (processes, homepages, parameters, longitudinal, poisoning):
    app.command()(experiment)
app.command("decoder-calibration")(decoder_calibration)
app.command("location-maps")(location_maps)
app.command("location-large")(location_large)
app.command("location-attacks")(location_attacks)
app.command("location-moves")(location_moves)
app.command("batch-linkage")(batch_linkage)
app.command("relay")(relay)
app.command("location-coverage")(location_coverage)
app.command("plan")(plan_check)
app.command("numbers")(numbers)
app.command("flows")(flows)
app.command("flow-coverage")(flow_coverage)
app.command("discovery")(discovery)
app.command("fleet")(fleet)

DEFAULT_OUTPUT = Path("simulation-output")
COLUMNS = (
    ("experiment", "name", "s"),
    ("reports", "reports", ",d"),
    ("held", "values_held", "d"),
    ("found", "found_true", "d"),
    ("false", "found_false", "d"),
    ("missed", "found_missed", "d"),
    ("coverage", "interval_coverage", ".4g"),
    ("detectable share", "detectable_share", ".4g"),
    ("above 2 errors, held", "above_two_errors_true", "d"),
    ("false ", "above_two_errors_false", "d"),
    ("epsilon_one", "epsilon_one", ".4g"),
)


@app.command()
def normal(
    reports: Annotated[
        list[int], typer.Option(min=1, help="Number of reports; may be given several times.")
    ] = list(paper.NORMAL_REPORTS),  # noqa: B006 - typer copies it
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    correction: shared.Correction = shared.CorrectionName.BONFERRONI,
    alpha: shared.Alpha = 0.05,
    as_json: shared.Json = False,
) -> None:
    """Basic one-time RAPPOR on a normal variable (mean 50, sd 10), p = .5, q = .75."""
    options = DecodeOptions(correction=correction.value, alpha=alpha)

    def collect(rng: np.random.Generator, advance: Callable[[int], None]) -> list[Experiment]:
        experiments = []
        for number in reports:
            experiments.append(paper.normal(number, rng, options))
            advance(1)
        return experiments

    asked = ExperimentOptions(seed, output, as_json)
    run_experiment(asked, ("collections", len(reports)), collect, partial(_outcome, "normal"))


@app.command()
def exponential(
    reports: Annotated[
        int, typer.Option(min=1, help="Number of reports.")
    ] = paper.EXPONENTIAL_REPORTS,
    seed: shared.Seed = None,
    output: shared.ExperimentFolder = DEFAULT_OUTPUT,
    method: shared.Method = shared.MethodName.CAVITY,
    correction: shared.Correction = shared.CorrectionName.BONFERRONI,
    alpha: shared.Alpha = 0.05,
    as_json: shared.Json = False,
) -> None:
    """100 exponentially falling shares among 200 candidates: k=128, h=2, m=16, f=p=.5, q=.75."""
    options = DecodeOptions(method=method.value, correction=correction.value, alpha=alpha)

    def collect(rng: np.random.Generator, advance: Callable[[int], None]) -> list[Experiment]:
        experiment = paper.exponential(reports, rng, options)
        advance(1)
        return [experiment]

    asked = ExperimentOptions(seed, output, as_json)
    run_experiment(asked, ("collections", 1), collect, partial(_outcome, "exponential"))


def _outcome(name: str, experiments: Sequence[Experiment]) -> ExperimentRun:
    options = experiments[0].decoding.options
    settings = {"method": options.method, "correction": options.correction, "alpha": options.alpha}
    rows = [_row(experiment) for experiment in experiments]
    draw = partial(draw_experiments, experiments)
    return ExperimentRun(name, f"Experiment: {name}", settings, COLUMNS, rows, draw=draw)


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
        "detectable_share": summary.detectable_share,
        "above_two_errors_true": experiment.above_two_errors[0],
        "above_two_errors_false": experiment.above_two_errors[1],
        "epsilon_one": summary.epsilon_one,
    }
