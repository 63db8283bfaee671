"""`rappor simulate decoder-calibration`: measure the decoder's error rates and coverage."""

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from decoder.options import DEFAULT_METHOD
from rappor_cli.analyze import MethodOption
from rappor_cli.experiment_runs import ExperimentRun
from rappor_cli.progress import progress_bar
from rappor_core.tasks import open_executor, run_tasks
from simulations.experiments.calibration import CalibrationRun, RunScore, cells, run_cell
from simulations.experiments.calibration_settings import FEW_COHORTS, STRESS
from simulations.experiments.calibration_table import HEADINGS, cells_of, summarize
from simulations.outcome import ExperimentOutcome


def decoder_calibration(
    run: ExperimentRun,
    runs: Annotated[int, typer.Option(min=0, help="Small runs per cell (25 cells).")] = 20,
    medium_runs: Annotated[int, typer.Option(min=0, help="Medium runs per cell.")] = 8,
    large_runs: Annotated[int, typer.Option(min=0, help="Large runs per cell.")] = 0,
    paper_runs: Annotated[
        int, typer.Option(min=0, help="Runs of each list of the paper's exponential experiment.")
    ] = 0,
    few_rows_runs: Annotated[
        int, typer.Option(min=0, help="Runs per cell at 16 cohorts of 8 bits (10 cells).")
    ] = 0,
    stress_runs: Annotated[
        int,
        typer.Option(
            min=0,
            help="Runs of each hard setting: a dominant value, several candidates per row, "
            "more values than rows, one cohort, nothing true.",
        ),
    ] = 0,
    few_cohorts_runs: Annotated[
        int, typer.Option(min=0, help="Runs of each list of 1 to 8 cohorts and over 128 rows.")
    ] = 0,
    method: MethodOption = DEFAULT_METHOD,
) -> ExperimentOutcome:
    """Measure recall, false discoveries, coverage and null scores in the reference settings.

    The table shows means over the distributions with their standard errors.
    docs/evaluation/lists.md explains the settings and the columns.
    """
    sizes = {
        "small": runs,
        "medium": medium_runs,
        "large": large_runs,
        "paper": paper_runs,
        "few rows": few_rows_runs,
        **dict.fromkeys(STRESS, stress_runs),
        **dict.fromkeys(FEW_COHORTS, few_cohorts_runs),
    }
    chosen = list(cells(sizes, run.seed))
    task, scores = partial(run_cell, method=method), dict[CalibrationRun, RunScore]()
    with open_executor() as executor, progress_bar("runs", len(chosen)) as advance:
        for cell, score in run_tasks(task, chosen, executor):
            scores[cell] = score
            advance(1)
    rows = summarize([scores[cell] for cell in chosen])
    return ExperimentOutcome(list(map(asdict, rows)), HEADINGS, list(map(cells_of, rows)))
