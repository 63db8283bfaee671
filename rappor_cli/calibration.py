"""`rappor simulate decoder-calibration`: measure the decoder's error rates and coverage."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from decoder.options import DEFAULT_METHOD
from rappor_cli.analyze import MethodOption
from rappor_cli.experiment_runs import ExperimentOutcome, ExperimentRun
from rappor_cli.progress import progress_bar
from rappor_cli.task_pools import run_tasks
from simulations.experiments.calibration import RULES, CalibrationRun, RunScore, cells, run_cell
from simulations.experiments.calibration_settings import FEW_COHORTS, STRESS
from simulations.experiments.calibration_table import REFERENCE, MeanOfRuns, Row, summarize

FOUND = ("bh", "fdr", "fdr-eb")  # rules whose intervals of the found are shown
HEADINGS = (
    "setting (runs)",
    "R",
    "oracle / bound",
    *(f"{rule}: recall / false" for rule in RULES),
    "family-wise error",
    "covered: all",
    *(f"found ({rule}): all / rightly / by list" for rule in FOUND),
    "five heaviest",
    "z² of wrong",
)


def decoder_calibration(
    run: ExperimentRun,
    runs: Annotated[int, typer.Option(min=0, help="Small runs by cell (25 cells).")] = 20,
    medium_runs: Annotated[int, typer.Option(min=0, help="Medium runs by cell.")] = 8,
    large_runs: Annotated[int, typer.Option(min=0, help="Large runs by cell.")] = 0,
    paper_runs: Annotated[
        int, typer.Option(min=0, help="Runs of each list of the paper's exponential experiment.")
    ] = 0,
    few_rows_runs: Annotated[
        int, typer.Option(min=0, help="Runs by cell at 16 cohorts of 8 bits (10 cells).")
    ] = 0,
    stress_runs: Annotated[
        int,
        typer.Option(
            min=0,
            help="Runs of each setting that is hard: a dominant value, several candidates a row, "
            "more values than rows, one cohort, nothing true.",
        ),
    ] = 0,
    few_cohorts_runs: Annotated[
        int, typer.Option(min=0, help="Runs of each list of 1 to 8 cohorts and over 128 rows.")
    ] = 0,
    method: MethodOption = DEFAULT_METHOD,
) -> ExperimentOutcome:
    """Recall, false discoveries, coverage and null scores in the reference settings.

    Means over the distributions with their standard errors. The settings and the columns are
    explained in docs/evaluation/lists.md.
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
    wanted = list(cells(sizes, run.seed))
    task, scores = partial(run_cell, method=method), dict[CalibrationRun, RunScore]()
    with progress_bar("runs", len(wanted)) as advance:
        for cell, score in run_tasks(task, wanted):
            scores[cell] = score
            advance(1)
    rows = summarize([scores[cell] for cell in wanted])
    return ExperimentOutcome(list(map(asdict, rows)), HEADINGS, list(map(_cells, rows)))


def _cells(row: Row) -> list[str]:
    """One line of the table."""
    reference = REFERENCE.get((row.size, row.configuration))
    return [
        _name(row),
        "-" if reference is None else " / ".join(map(_short, reference)),
        f"{_figure(row.oracle)} / {_figure(row.bound)}",
        *(f"{_figure(row.recall[r])} / {_figure(row.false_proportion[r])}" for r in RULES),
        _figure(row.family_wise["bonferroni"]),
        _figure(row.coverage),
        *(" / ".join(map(_figure, _of_found(row, rule))) for rule in FOUND),
        _figure(row.heaviest),
        _figure(row.wrong_z_squared),
    ]


def _of_found(row: Row, rule: str) -> tuple[MeanOfRuns, MeanOfRuns, MeanOfRuns]:
    """Coverage of the found: all of them, those that somebody holds, and by list."""
    return row.coverage_detected[rule], row.coverage_right[rule], row.coverage_by_list[rule]


def _name(row: Row) -> str:
    """Setting and runs, with those that gave no answer."""
    failures = (row.not_converged, "not converged"), (row.refused, "refused")
    notes = [str(row.runs), *(f"{count} {what}" for count, what in failures if count)]
    return f"{row.size} {row.configuration} ({', '.join(notes)})"


def _figure(mean: MeanOfRuns) -> str:
    """Mean ± standard error, to as many digits as the error allows; - where not defined."""
    if math.isnan(mean.value):
        return "-"
    if math.isnan(mean.error) or mean.error < 5e-5:
        return _short(mean.value, 3)
    digits = min(max(math.ceil(-math.log10(mean.error)), 2), 4)
    return f"{_short(mean.value, digits)} ± {_short(mean.error, digits)}"


def _short(value: float, digits: int = 2) -> str:
    """A fraction without the 0 before its point."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"
