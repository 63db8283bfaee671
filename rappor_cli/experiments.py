"""The `rappor simulate` experiments on value lists, with their settings and columns.

Each function accepts a run and the settings as options, and returns the measurements and their
presentation. The experiments themselves are in `simulations`.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from decoder.options import DEFAULT_ALPHA, DEFAULT_METHOD, DecodeOptions
from rappor_cli import options as shared
from rappor_cli.analyze import CorrectionOption, MethodOption
from rappor_cli.experiment_runs import ExperimentRun
from rappor_cli.numbers import read_day
from rappor_cli.progress import progress_bar
from rappor_core.tasks import open_executor
from simulations import fleets
from simulations.experiments import homepages as home
from simulations.experiments import longitudinal as over_time
from simulations.experiments import paper
from simulations.experiments import poisoning as forging
from simulations.experiments import processes as machines
from simulations.outcome import ExperimentOutcome, outcome_of

MONDAY = date(2026, 11, 2)  # the first week of a fleet, unless --from is given
Runs = Annotated[int, typer.Option(min=2, help="Draws of each setting.")]


def normal(
    run: ExperimentRun,
    reports: Annotated[
        list[int], typer.Option(min=1, help="Number of reports; may be given several times.")
    ] = list(paper.NORMAL_REPORTS),  # noqa: B006 - typer copies it
    correction: CorrectionOption = "bonferroni",
    alpha: shared.Alpha = DEFAULT_ALPHA,
) -> ExperimentOutcome:
    """Run basic one-time RAPPOR on a normal variable (mean 50, sd 10), p = .5, q = .75."""
    options = DecodeOptions(correction=correction, alpha=alpha)
    return _paper(run, [partial(paper.normal, number, options=options) for number in reports])


def exponential(
    run: ExperimentRun,
    reports: Annotated[
        int, typer.Option(min=1, help="Number of reports.")
    ] = paper.EXPONENTIAL_REPORTS,
    method: MethodOption = DEFAULT_METHOD,
    correction: CorrectionOption = "bonferroni",
    alpha: shared.Alpha = DEFAULT_ALPHA,
) -> ExperimentOutcome:
    """Decode 100 exponential shares from 200 candidates: k=128, h=2, m=16, f=p=.5, q=.75."""
    options = DecodeOptions(method=method, correction=correction, alpha=alpha)
    return _paper(run, [partial(paper.exponential, reports, options=options)])


def _paper(
    run: ExperimentRun, collections: Sequence[Callable[..., paper.Experiment]]
) -> ExperimentOutcome:
    rows = []
    with progress_bar("collections", len(collections)) as advance:
        for collect in collections:
            rows.append(collect(rng=run.rng).row())
            advance(1)
    return outcome_of(rows, paper.COLUMNS)


def processes(
    run: ExperimentRun,
    runs: Runs = 25,
    devices: Annotated[
        int, typer.Option(min=100, help="Number of machines, with more than 18 reports each.")
    ] = machines.DEVICES,
) -> ExperimentOutcome:
    """Decode ten processes from machines that report often, using the true variance."""
    with progress_bar("collections", runs * len(machines.WAYS)) as advance:
        rows = machines.processes(runs, devices, run.rng, advance=advance)
    return outcome_of(rows, machines.COLUMNS)


def homepages(
    run: ExperimentRun,
    reports: Annotated[
        int, typer.Option(min=100_000, help="Devices, one report each by default.")
    ] = home.REPORTS,
    runs: Annotated[int, typer.Option(min=1, help="Draws of each distribution.")] = 5,
    repeated: Annotated[int, typer.Option(min=2, help="Reports per device if repeated.")] = 30,
) -> ExperimentOutcome:
    """Detect home pages among 8,616 with valid error rates, and compare with the paper's 31."""
    with progress_bar("draws", runs * (len(home.DISTRIBUTIONS) + 1)) as advance:
        rows = home.homepages(runs, reports, run.rng, repeated, advance)
    distance = home.PAPER_SMALLEST / home.first_order_error(reports, 1)
    note = f"{home.PAPER_SMALLEST:,} users: {distance:.2f} first-order standard errors."
    return outcome_of(rows, home.COLUMNS, notes=[note])


def longitudinal(
    run: ExperimentRun,
    devices: Annotated[
        int, typer.Option(min=1_000, help="Attacked devices, for each mode and number of periods.")
    ] = 400_000,
) -> ExperimentOutcome:
    """Measure what an adversary learns from a year of one device's reports, by mode."""
    with progress_bar("attacks", len(over_time.modes()) * len(over_time.PERIODS)) as advance:
        rows = over_time.longitudinal(devices, run.rng, over_time.PERIODS, advance)
    return outcome_of(rows, over_time.COLUMNS)


def poisoning(
    run: ExperimentRun,
    reports: Annotated[
        int, typer.Option(min=100_000, help="Reports of each draw, including fabricated ones.")
    ] = forging.REPORTS,
    runs: Runs = 10,
) -> ExperimentOutcome:
    """Measure how much fabricated reports shift an estimate, and which checks detect them."""
    number = 1 + len(forging.WAYS) * len(forging.FRACTIONS)
    with progress_bar("ways and parts", number) as advance:
        rows = forging.poisoning(runs, reports, run.rng, forging.FRACTIONS, advance)
    named = [", ".join(w for w, part in row.warnings.items() if part >= 0.5) for row in rows]
    rows_with_warnings = [
        asdict(row) | {"warned_of": of} for row, of in zip(rows, named, strict=True)
    ]
    return outcome_of(rows_with_warnings, forging.COLUMNS)


def fleet(
    run: ExperimentRun,
    devices: Annotated[int, typer.Option(min=1, help="Devices in each week.")] = 100_000_000,
    weeks: Annotated[int, typer.Option(min=1, max=104, help="Weeks, each with reports.")] = 12,
    turnover: Annotated[
        float, typer.Option(min=0, max=1, help="Share of devices replaced each week.")
    ] = 0.02,
    reports: Annotated[int, typer.Option(min=1, help="Reports per device and week.")] = 1,
    values: Annotated[int, typer.Option(min=1, help="Number of values that devices have.")] = 200,
    zipf: Annotated[float, typer.Option(help="Zipf exponent of the values' shares.")] = 1.0,
    shares: Annotated[
        Path | None, typer.Option(help="File with shares instead, largest first.", exists=True)
    ] = None,
    absent: Annotated[int, typer.Option(min=0, help="Listed values that no device has.")] = 200,
    metrics: Annotated[Path | None, typer.Option(help="metrics.toml of --metric.")] = None,
    metric: Annotated[str | None, typer.Option(help="Its metric; default: strings, k=128.")] = None,
    correction: CorrectionOption = "bonferroni",
    alpha: shared.Alpha = DEFAULT_ALPHA,
    first: Annotated[str | None, typer.Option("--from", help="Monday of the first week.")] = None,
    on: shared.Engine = None,
) -> ExperimentOutcome:
    """Simulate a fleet of any size with the exact distribution; decode 1, 2, 4, ... weeks.

    The counts of each week are written as an aggregate file.
    """
    start = _monday(first)
    if (metrics is None) != (metric is None):
        raise typer.BadParameter("--metrics and --metric go together")
    declared = fleets.declared_metric(metrics, metric)
    options = DecodeOptions(correction=correction, alpha=alpha)
    candidates, truth = fleets.listed_values(declared, shares, zipf, values, absent)
    positions = candidates.positions(declared.params)[: len(truth)]
    wanted = fleets.Fleet(declared.params, truth, positions, devices, weeks, turnover, reports)
    engine = open_executor(on, [fleets.__name__]) if on else nullcontext()
    with engine as executor, progress_bar("cohorts", declared.params.num_cohorts) as advance:
        drawn = fleets.draw_fleet(wanted, run.seed, advance, executor)
    rows = fleets.decode_rows(drawn, candidates, declared, options, start)
    return outcome_of(rows, fleets.COLUMNS, files=drawn.week_files(declared, start))


def _monday(first: str | None) -> date:
    start = read_day(first) or MONDAY
    if start.weekday():
        before = start - timedelta(days=start.weekday())
        raise typer.BadParameter(
            f"{start} is not a Monday, on which weeks begin; try {before}",
            param_hint="--from",
        )
    return start
