"""`rappor decode`: recover frequencies from counts, and write table, files and report."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from decoder.formats.analyst_tables import read_repetition, read_shares, read_weights
from decoder.options import DecodeOptions
from decoder.sources.aggregates import (
    AggregateFiles,
    AggregateSource,
    CollectorWindow,
    GoogleTables,
)
from decoder.sources.windows import Each
from decoder.workflows.decoding import DecodeJob, run_decode, run_series
from decoder.workflows.kinds import KindAnswer, run_own
from rappor_cli import options as shared
from rappor_cli.candidate_choice import candidate_choice
from rappor_cli.days import read_day
from rappor_cli.decode_farm import Farm, decode_all
from rappor_cli.decode_tables import print_answer, print_decoding, print_series
from rappor_cli.progress import stage_bars
from rappor_cli.repeats import Repeats
from rappor_cli.task_pools import Workers
from rappor_cli.text import print_note
from rappor_core.errors import shown
from rappor_core.params import HashFamily


class HashName(StrEnum):
    """Names of the hash families (`--hash`)."""

    MMH3 = "mmh3"
    MD5 = "md5"


Input = Annotated[
    list[Path] | None,
    typer.Option("--aggregate", help="Aggregate file; several are added.", exists=True),
]


MetricOption = Annotated[str | None, typer.Option(help="Metric to fetch from it.")]
ParamsFile = Annotated[Path | None, typer.Option(help="google/rappor's params.csv.", exists=True)]
CountsFile = Annotated[Path | None, typer.Option(help="google/rappor's counts.csv.", exists=True)]
MapFile = Annotated[
    Path | None, typer.Option("--map", help="google/rappor's map.csv.", exists=True)
]
Hash = Annotated[HashName, typer.Option("--hash", help="Hash of the reports behind --counts.")]
CandidatesFile = Annotated[
    Path | None, typer.Option(help="Values to look for: txt, csv, Parquet; gz or not.", exists=True)
]
Column = Annotated[str | None, typer.Option(help="Column of a table of candidates.")]
Numbers = Annotated[str | None, typer.Option(help="Numbers FIRST:LAST[:STEP].")]
Dates = Annotated[str | None, typer.Option(help="Days FIRST:LAST.")]
MaxP = Annotated[float, typer.Option(min=0, max=1, help="Accept no larger p-value.")]
Without = Annotated[str | None, typer.Option(help="Cohorts to leave out, such as 3,7.")]
DevicesFile = Annotated[
    Path | None, typer.Option(help="File of the number of reports of each device.", exists=True)
]
SharesFile = Annotated[
    Path | None, typer.Option(help="CSV of value,share; others are 0.", exists=True)
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(help="CSV of value,weight, declared before the data; `,1`: others.", exists=True),
]
EachOption = Annotated[
    Each | None,
    typer.Option(help="A series by day or week: of the days that are served, or several files."),
]
AllMetrics = Annotated[
    bool, typer.Option("--all-metrics", help="Each window of each metric, with --each and -o.")
]
_NO_SOURCE = "give --aggregate FILE, or --collector URL --metric NAME, or --params with --counts"
_NO_SERIES_SOURCE = "--each needs --aggregate files or --collector URL"


def decode(
    aggregate: Input = None,
    collector: shared.Collector = None,
    metric: MetricOption = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params: ParamsFile = None,
    counts: CountsFile = None,
    map_file: MapFile = None,
    hash_name: Hash = HashName.MD5,
    candidates: CandidatesFile = None,
    column: Column = None,
    numbers: Numbers = None,
    dates: Dates = None,
    method: shared.Method = shared.MethodName.CAVITY,
    correction: shared.Correction = shared.CorrectionName.FDR,
    alpha: shared.Alpha = 0.05,
    level: shared.Level = 0.95,
    max_p: MaxP = 1.0,
    repeats: Repeats = None,
    reports_by_device: DevicesFile = None,
    without_cohorts: Without = None,
    true_shares: SharesFile = None,
    weights: WeightsFile = None,
    each: EachOption = None,
    all_metrics: AllMetrics = False,
    workers: Workers = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Recover frequencies from an aggregate, with a report that can be shown."""
    _one_source(aggregate, collector, params or counts, first or last)
    _together("--metric", metric, "--collector", collector)
    _together("--column", column, "--candidates", candidates)
    _one_repetition(repeats, reports_by_device)
    options = DecodeOptions(
        method=method.value,
        correction=correction.value,
        alpha=alpha,
        level=level,
        repeats=read_repetition(reports_by_device) if reports_by_device else repeats,
        largest_p=max_p,
        true_shares=read_shares(true_shares) if true_shares else None,
        without_cohorts=_cohorts(without_cohorts),
        weights=read_weights(weights) if weights else None,
    )
    wanted = candidate_choice(candidates, column, numbers, dates, map_file)
    if all_metrics:
        if metric or params or counts or map_file:
            raise typer.BadParameter("--all-metrics takes --aggregate files or --collector URL")
        days = read_day(first), read_day(last)
        decode_all(
            Farm(tuple(aggregate or ()), collector, *days, each, wanted, options, output,
                 workers),
            as_json,
        )  # fmt: skip
        return
    if workers:
        raise typer.BadParameter("--workers goes with --all-metrics")
    tables = _google_tables(params, counts, hash_name.value) if params or counts else None
    source = tables or _source(aggregate, collector, metric, first, last, each)
    _run_and_print(DecodeJob(source, wanted, options, output), each, as_json)


def _run_and_print(job: DecodeJob, each: Each | None, as_json: bool) -> None:
    """Decode with the kind's own decoder, if it has one; a series; or a window."""
    output = job.output
    if not isinstance(job.source, GoogleTables):
        with stage_bars() as progress:
            own = run_own(job, each, progress, print_note)
        if isinstance(own, KindAnswer):
            print_answer(own, output, as_json)
            return
        job = own
    if each:
        with stage_bars() as progress:
            series = run_series(job, each, progress, print_note)
        print_series(series, output, as_json)
        return
    with stage_bars() as progress:
        decoding = run_decode(job, progress, print_note)
    print_decoding(decoding, output, as_json)


def _one_source(
    aggregate: list[Path] | None, collector: str | None, google: Path | None, window: str | None
) -> None:
    """Refuse what would be ignored."""
    if sum(map(bool, (aggregate, collector, google))) > 1:
        raise typer.BadParameter("give one of --aggregate, --collector and --params with --counts")
    if window and not collector:
        raise typer.BadParameter("--from and --to go with --collector; a file is its own window")


def _one_repetition(repeats: float | None, reports_by_device: Path | None) -> None:
    if repeats and reports_by_device:
        raise typer.BadParameter("give --repeats or --reports-by-device: each tells the other")


def _together(name: str, value: object, needed: str, other: object) -> None:
    if value and not other:
        raise typer.BadParameter(f"{name} goes with {needed}")


def _cohorts(text: str | None) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        raise typer.BadParameter(f"{shown(text)} is not a list of cohorts such as 3,7")
    return tuple(sorted(set(map(int, words))))


def _source(
    paths: list[Path] | None,
    collector: str | None,
    metric: str | None,
    first: str | None,
    last: str | None,
    each: Each | None,
) -> AggregateSource:
    """Files, or the window of a collector; without days all that it serves."""
    if not collector:
        if not paths:
            raise typer.BadParameter(_NO_SERIES_SOURCE if each else _NO_SOURCE)
        return AggregateFiles(tuple(paths))
    if not metric:
        raise typer.BadParameter("--collector needs --metric NAME")
    return CollectorWindow(collector, metric, read_day(first), read_day(last))


def _google_tables(params: Path | None, counts: Path | None, hash_name: str) -> GoogleTables:
    if not (params and counts):
        raise typer.BadParameter("--params and --counts go together")
    return GoogleTables(params, counts, cast(HashFamily, hash_name))
