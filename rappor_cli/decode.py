"""`rappor decode`: recover frequencies from counts, and write table, files and report."""

from __future__ import annotations

import re
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from decoder import DecodeOptions, write_outputs
from decoder import decode as run_decoder
from decoder.files import make_folder, read_aggregate_file
from decoder.formats.analyst_tables import read_repetition, read_shares
from decoder.formats.google_rappor import read_counts, read_params, write_metrics_json
from decoder.reports.series_files import write_series
from decoder.series.series import decode_over_time
from rappor_cli.candidate_choice import given_candidates
from rappor_cli.days import read_day
from rappor_cli.decode_tables import print_decoding, print_series
from rappor_cli.progress import stage_bars
from rappor_cli.remote import fetch_aggregate
from rappor_cli.windows import Each, windows_of_collector, windows_of_files
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.params import HashFamily


class MethodName(StrEnum):
    """How shares are estimated."""

    CAVITY = "cavity"
    LASSO = "lasso"


class CorrectionName(StrEnum):
    """How many candidates are allowed for."""

    BONFERRONI = "bonferroni"
    HOLM = "holm"
    BH = "bh"
    FDR = "fdr"
    FDR_EB = "fdr-eb"
    NONE = "none"


class HashName(StrEnum):
    """Hash families."""

    MMH3 = "mmh3"
    MD5 = "md5"


Input = Annotated[
    list[Path] | None,
    typer.Option("--aggregate", help="Aggregate file; several are added.", exists=True),
]


CollectorOption = Annotated[str | None, typer.Option(help="Address of a collector.")]
MetricOption = Annotated[str | None, typer.Option(help="Metric to fetch from it.")]
First = Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")]
Last = Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")]
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
Cache = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder that keeps the bits of long lists.")
]
Method = Annotated[MethodName, typer.Option(help="Estimator.")]
Correction = Annotated[CorrectionName, typer.Option(help="What is promised about the list.")]
Alpha = Annotated[float, typer.Option(min=0, max=1, help="Level of the correction.")]
Level = Annotated[float, typer.Option(min=0, max=1, help="Level of the intervals.")]
MaxP = Annotated[float, typer.Option(min=0, max=1, help="Accept no larger p-value.")]
Repeats = Annotated[float | None, typer.Option(min=1, help="Reports of a device: sum r^2 / sum r.")]
Without = Annotated[str | None, typer.Option(help="Cohorts to leave out, such as 3,7.")]
DevicesFile = Annotated[
    Path | None, typer.Option(help="File of the number of reports of each device.", exists=True)
]
SharesFile = Annotated[
    Path | None, typer.Option(help="CSV of value,share; others are 0.", exists=True)
]
EachOption = Annotated[
    Each | None, typer.Option(help="A series by day or week: --from, --to, or several files.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Folder for files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]


def decode(
    aggregate: Input = None,
    collector: CollectorOption = None,
    metric: MetricOption = None,
    first: First = None,
    last: Last = None,
    params: ParamsFile = None,
    counts: CountsFile = None,
    map_file: MapFile = None,
    hash_name: Hash = HashName.MD5,
    candidates: CandidatesFile = None,
    column: Column = None,
    numbers: Numbers = None,
    dates: Dates = None,
    cache: Cache = None,
    method: Method = MethodName.CAVITY,
    correction: Correction = CorrectionName.FDR,
    alpha: Alpha = 0.05,
    level: Level = 0.95,
    max_p: MaxP = 1.0,
    repeats: Repeats = None,
    reports_by_device: DevicesFile = None,
    without_cohorts: Without = None,
    true_shares: SharesFile = None,
    each: EachOption = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Recover frequencies from an aggregate, with a report that can be shown."""
    started = time.monotonic()
    _one_source(aggregate, collector, params or counts, first or last)
    _together("--metric", metric, "--collector", collector)
    _together("--column", column, "--candidates", candidates)
    if repeats and reports_by_device:
        raise typer.BadParameter("give --repeats or --reports-by-device: each tells the other")
    options = DecodeOptions(
        method=method.value,
        correction=correction.value,
        alpha=alpha,
        level=level,
        repeats=read_repetition(reports_by_device) if reports_by_device else repeats,
        largest_p=max_p,
        true_shares=read_shares(true_shares) if true_shares else None,
        without_cohorts=_cohorts(without_cohorts),
    )
    if each:
        windows = _windows(each, aggregate, collector, metric, first, last)
        wanted = given_candidates(windows[0], candidates, column, numbers, dates, map_file, cache)
        _make(output)
        with stage_bars() as progress:
            series = decode_over_time(windows, wanted, options, progress)
            if output:
                write_series(series, output)
                write_outputs(series.whole, output, progress)
        print_series(series, output, as_json)
        return
    if params or counts:
        source = _google_aggregate(params, counts, hash_name.value)
    elif collector:
        source = _fetch(collector, metric, first, last)
    else:
        source = _read_aggregates(aggregate)
    wanted = given_candidates(source, candidates, column, numbers, dates, map_file, cache)
    _make(output)
    with stage_bars() as progress:
        decoding = run_decoder(source, wanted, options, progress)
        if output:
            write_outputs(decoding, output, progress)
    if output and counts:
        write_metrics_json(decoding, time.monotonic() - started, output / "metrics.json")
    print_decoding(decoding, output, as_json)


def _one_source(
    aggregate: list[Path] | None, collector: str | None, google: Path | None, window: str | None
) -> None:
    """Refuse what would be ignored."""
    if sum(map(bool, (aggregate, collector, google))) > 1:
        raise typer.BadParameter("give one of --aggregate, --collector and --params with --counts")
    if window and not collector:
        raise typer.BadParameter("--from and --to go with --collector; a file is its own window")


def _together(name: str, value: object, needed: str, other: object) -> None:
    if value and not other:
        raise typer.BadParameter(f"{name} goes with {needed}")


def _cohorts(text: str | None) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        raise typer.BadParameter(f"{shown(text)} is not a list of cohorts such as 3,7")
    return tuple(sorted(set(map(int, words))))


def _make(output: Path | None) -> None:
    """Find out whether files can be written before the work, not after."""
    if output:
        make_folder(output)


def _windows(
    each: Each,
    paths: list[Path] | None,
    collector: str | None,
    metric: str | None,
    first: str | None,
    last: str | None,
) -> list[Aggregate]:
    """Aggregates of the windows, oldest first."""
    if not collector and not paths:
        raise typer.BadParameter("--each needs --aggregate files or --collector URL")
    if not collector:
        return windows_of_files(list(map(read_aggregate_file, paths or ())), each)
    days = read_day(first), read_day(last)
    if metric is None or days[0] is None or days[1] is None:
        raise typer.BadParameter("--each with --collector needs --metric, --from and --to")
    return windows_of_collector(collector, metric, each, days[0], days[1])


def _read_aggregates(paths: list[Path] | None) -> Aggregate:
    if not paths:
        raise typer.BadParameter(
            "give --aggregate FILE, or --collector URL --metric NAME, or --params with --counts"
        )
    whole, *others = map(read_aggregate_file, paths)
    for other in others:
        whole = whole.merge(other)
    return whole


def _fetch(collector: str, metric: str | None, first: str | None, last: str | None) -> Aggregate:
    if not metric:
        raise typer.BadParameter("--collector needs --metric NAME")
    return fetch_aggregate(collector, metric, first=read_day(first), last=read_day(last))


def _google_aggregate(params: Path | None, counts: Path | None, hash_name: str) -> Aggregate:
    if not (params and counts):
        raise typer.BadParameter("--params and --counts go together")
    return read_counts(counts, read_params(params, cast(HashFamily, hash_name)))
