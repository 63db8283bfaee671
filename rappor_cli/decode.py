"""`rappor decode`: recover frequencies from counts, and write table, files and report."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from decoder.formats.analyst_tables import read_weights
from decoder.options import DecodeOptions
from decoder.sources.aggregates import (
    AggregateFiles,
    AggregateSource,
    CollectorWindow,
    GoogleTables,
)
from decoder.sources.windows import Each
from decoder.workflows.decoding import CandidateChoice, DecodeJob, run_decode, run_series
from decoder.workflows.kinds import KindAnswer, run_own
from rappor_cli import options as shared
from rappor_cli.decode_tables import print_answer, print_decoding, print_series
from rappor_cli.numbers import number, read_day
from rappor_cli.options import bounded_repeats
from rappor_cli.progress import stage_bars
from rappor_cli.text import print_note
from rappor_core.errors import shown
from rappor_core.params import HashFamily


class HashName(StrEnum):
    """Names of the hash families (`--hash`)."""

    MMH3 = "mmh3"
    MD5 = "md5"


MetricOption = Annotated[str | None, typer.Option(help="Metric to fetch from it.")]
ParamsFile = Annotated[Path | None, typer.Option(help="google/rappor's params.csv.", exists=True)]
CountsFile = Annotated[Path | None, typer.Option(help="google/rappor's counts.csv.", exists=True)]
MapFile = Annotated[
    Path | None, typer.Option("--map", help="google/rappor's map.csv.", exists=True)
]
Hash = Annotated[HashName, typer.Option("--hash", help="Hash of the reports behind --counts.")]
CandidatesOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|RANGE",
        help="Values to look for: txt, csv, Parquet, gz or not; numbers FIRST:LAST[:STEP] or days "
        "FIRST:LAST.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="level: of the intervals, .95; repeats: of a device, sum r^2 / sum r; largest_p: "
        "accept no larger one; without_cohorts: such as 3,7; weights: CSV of value,weight, "
        "declared before the data (`,1`: others); column: of a table of candidates.",
    ),
]
EachOption = Annotated[
    Each | None,
    typer.Option(help="A series by day or week: of the days that are served, or several files."),
]
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NUMBER = "-?[0-9]{1,18}"
_RANGE = re.compile(f"(?P<days>{_DAY}:{_DAY})|{_NUMBER}:{_NUMBER}(:{_NUMBER})?")
_NO_SOURCE = "give --aggregate FILE, or --collector URL --metric NAME, or --params with --counts"
_NO_SERIES_SOURCE = "--each needs --aggregate files or --collector URL"


def decode(
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    metric: MetricOption = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params: ParamsFile = None,
    counts: CountsFile = None,
    map_file: MapFile = None,
    hash_name: Hash = HashName.MD5,
    candidates: CandidatesOption = None,
    method: shared.Method = shared.MethodName.CAVITY,
    correction: shared.Correction = shared.CorrectionName.FDR,
    alpha: shared.Alpha = 0.05,
    each: EachOption = None,
    settings: Settings = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Recover frequencies from an aggregate, with a report that can be shown."""
    _one_source(aggregate, collector, params or counts, first or last)
    _together("--metric", metric, "--collector", collector)
    given = dict(map(_setting, settings or ()))
    column = given.pop("column", None)
    wanted = _candidates(candidates, column, map_file)
    options = DecodeOptions(method=method.value, correction=correction.value, alpha=alpha, **given)
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


def _together(name: str, value: object, needed: str, other: object) -> None:
    if value and not other:
        raise typer.BadParameter(f"{name} goes with {needed}")


def _setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE of --set."""
    name, _, value = text.partition("=")
    if name not in _SETTINGS:
        raise typer.BadParameter(f"--set {shown(text)}: the names are {', '.join(_SETTINGS)}")
    return name, _SETTINGS[name](value)


def _from_0_to_1(text: str) -> float:
    found = number(text)
    if not 0 <= found <= 1:
        raise typer.BadParameter(f"{shown(text)} is not from 0 to 1")
    return found


def _cohorts(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        raise typer.BadParameter(f"{shown(text)} is not a list of cohorts such as 3,7")
    return tuple(sorted(set(map(int, words))))


_SETTINGS: dict[str, Callable[[str], Any]] = {
    "level": _from_0_to_1,
    "repeats": lambda text: bounded_repeats(number(text)),
    "largest_p": _from_0_to_1,
    "without_cohorts": _cohorts,
    "weights": lambda text: read_weights(Path(text)),
    "column": str,
}


def _candidates(text: str | None, column: str | None, map_file: Path | None) -> CandidateChoice:
    """Make the choice of candidates: a file, a range of numbers or days, or google's map."""
    if text is not None and map_file is not None:
        raise typer.BadParameter("give one of --candidates and --map")
    found = None if text is None or Path(text).exists() else _RANGE.fullmatch(text)
    _together("column", column, "--candidates FILE", text is not None and found is None)
    if found is None or text is None:
        return CandidateChoice(file=Path(text) if text else None, column=column, map_file=map_file)
    if found["days"]:
        return CandidateChoice(dates=tuple(map(read_day, text.split(":"))))
    return CandidateChoice(numbers=tuple(map(int, text.split(":"))))


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
