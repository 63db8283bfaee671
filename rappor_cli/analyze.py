"""The commands that turn counts into results: `decode`, `density`, `flows`, `discover`, `compare`.

Each command parses its options and makes one call. The decoder for the metric's kind then decodes
the counts, and writes and prints the results.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from decoder.candidates.files import read_weights
from decoder.errors import DecodeError
from decoder.files import replacing
from decoder.formats.google_rappor import write_metrics_json
from decoder.grid_cells import location_of
from decoder.inference.multiple_testing import Correction
from decoder.kinds.batch import decode_metrics
from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import Question
from decoder.kinds.run import claim, decode_counts, kind_of, write_result
from decoder.options import (
    DEFAULT_ALPHA,
    DEFAULT_AREA_NAME,
    DEFAULT_CORRECTION,
    DEFAULT_CROWD,
    DEFAULT_LEVEL,
    DEFAULT_MAP_METHOD,
    DEFAULT_METHOD,
    DEFAULT_MIN_KM,
    DEFAULT_TOP,
    CandidateChoice,
    DecodeOptions,
    FlowOptions,
    MapMethod,
    MapOptions,
    Method,
    Operation,
)
from decoder.output.tiles import Tiles
from decoder.sources.aggregates import (
    AggregateFiles,
    AggregateSource,
    CollectorWindow,
    GoogleTables,
    check_metric,
    sources_by_metric,
    window_of,
)
from decoder.sources.windows import Each, SplitName
from decoder.tables.reading import text_problem
from rappor_cli import options as shared
from rappor_cli.numbers import number, read_day
from rappor_cli.options import bounded_repeats
from rappor_cli.progress import stage_bars
from rappor_cli.results import print_result
from rappor_cli.store import StoredWindow, need_one
from rappor_cli.text import print_columns, print_note
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.tasks import open_executor
from rappor_core.text import visible

MethodOption = Annotated[Method, typer.Option(help="Estimator.")]
CorrectionOption = Annotated[Correction, typer.Option(help="Correction for multiple testing.")]
MetricOption = Annotated[str | None, typer.Option(help="Metric to fetch from it.")]
MetricArgument = Annotated[str, typer.Argument(help="Name of the metric.")]
ParamsFile = Annotated[Path | None, typer.Option(help="google/rappor's params.csv.", exists=True)]
CountsFile = Annotated[Path | None, typer.Option(help="google/rappor's counts.csv.", exists=True)]
MapFile = Annotated[Path | None, typer.Option("--map", help="google/rappor map.csv.", exists=True)]
AllMetrics = Annotated[
    bool, typer.Option("--all-metrics", help="Decode each metric into a folder in -o DIR.")
]
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
        help=f"level: of the intervals, {DEFAULT_LEVEL}; repeats: of a device, sum r^2 / sum r; "
        "largest_p: accept no larger one; without_cohorts: such as 3,7; weights: CSV of "
        "value,weight, declared before the data (`,1`: others); column: of a table of candidates; "
        "hash: of the reports behind --counts, md5.",
    ),
]
EarlierWindow = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE|DAYS", help="Earlier window: FIRST:LAST, or a file."),
]
LaterWindow = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE|DAYS", help="Later window: FIRST:LAST, or a file."),
]
EachOption = Annotated[
    Each | None,
    typer.Option(help="A series by day or week, from all days served or from several files."),
]
BaseFile = Annotated[
    Path | None,
    typer.Option(help="GeoJSON of streets, districts or stations, to be drawn.", exists=True),
]
TilesUrl = Annotated[
    str,
    typer.Option(
        "--tiles",
        envvar="RAPPOR_TILES",
        metavar="URL",
        help="Tiles behind the map of the page: https://HOST/{z}/{x}/{y}.png, or a .pmtiles file.",
    ),
]
TilesCredit = Annotated[
    str,
    typer.Option("--tiles-credit", envvar="RAPPOR_TILES_CREDIT", help="Attribution for --tiles."),
]
RegionFile = Annotated[Path | None, typer.Option(help="GeoJSON of the visible area.", exists=True)]
PointsFile = Annotated[
    Path | None, typer.Option(help="CSV with latitude and longitude, to be marked.", exists=True)
]
AreasFile = Annotated[
    Path | None,
    typer.Option(help="GeoJSON of areas, such as districts: shares with intervals.", exists=True),
]
KnownFile = Annotated[
    Path | None,
    typer.Option(
        help="CSV of a known matrix, such as a census: origin,destination,count.",
        exists=True,
    ),
]
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NUMBER = "-?[0-9]{1,99}"
_RANGE = re.compile(f"(?P<days>{_DAY}:{_DAY})|{_NUMBER}:{_NUMBER}(:{_NUMBER})?")


def decode(
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    metric: MetricOption = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params: ParamsFile = None,
    counts: CountsFile = None,
    map_file: MapFile = None,
    all_metrics: AllMetrics = False,
    candidates: CandidatesOption = None,
    method: MethodOption = DEFAULT_METHOD,
    correction: CorrectionOption = DEFAULT_CORRECTION,
    alpha: shared.Alpha = DEFAULT_ALPHA,
    each: EachOption = None,
    settings: Settings = None,
    on: shared.Engine = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Recover frequencies from an aggregate, and write a report to share."""
    choices = _settings(settings)
    hash_name = choices.pop("hash", None) if counts else None
    if all_metrics:
        others = metric or params or counts or map_file
        if others or not output or bool(aggregate) == bool(collector):
            raise typer.BadParameter("--all-metrics goes with --collector or --aggregate, and -o")
        if candidates and not Path(candidates).is_dir():
            raise typer.BadParameter("--candidates with --all-metrics is a folder of METRIC.txt")
        lists = Path(candidates) if candidates else None
        question = _question(None, choices, None, method, correction, alpha)
        days = read_day(first), read_day(last)
        sources = sources_by_metric(aggregate or (), collector or "", *days)
        _decode_all(sources, question, output, lists, each, on, as_json)
        return
    if on:
        raise typer.BadParameter("--on goes with --all-metrics")
    question = _question(candidates, choices, map_file, method, correction, alpha)
    if params or counts:
        if aggregate or collector or first or last:
            raise typer.BadParameter(
                "give one of --aggregate, --collector and --params with --counts"
            )
        if not (params and counts):
            raise typer.BadParameter("--params and --counts go together")
        tables = GoogleTables(params, counts, hash_name or "md5")
        _run(tables, question, output, each=each, as_json=as_json)
        return
    if metric and not collector:
        raise typer.BadParameter("--metric goes with --collector")
    if not (aggregate or collector):
        raise typer.BadParameter(
            "give --aggregate FILE, or --collector URL --metric NAME, or --params with --counts"
        )
    source = _source(metric, aggregate, collector, None, first, last)
    _run(source, question, output, each=each, as_json=as_json)


def compare(
    metric: Annotated[str, typer.Argument(help="Name of the metric.")],
    before: EarlierWindow = None,
    after: LaterWindow = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="SIDE",
            help="Compare the arms of an experiment: the side of a pair metric that holds the arm.",
        ),
    ] = "",
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    candidates: CandidatesOption = None,
    method: MethodOption = DEFAULT_METHOD,
    correction: CorrectionOption = DEFAULT_CORRECTION,
    alpha: shared.Alpha = DEFAULT_ALPHA,
    settings: Settings = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Compare two windows of a metric, or the arms of an experiment.

    rappor compare page --collector URL --before 2026-11-01:2026-11-07 --after 2026-11-08:2026-11-14

    rappor compare checkout --collector URL --by arm --from 2026-11-01 --to 2026-11-14
    """
    question = _question(candidates, _settings(settings), None, method, correction, alpha)
    if by:
        if before or after:
            raise typer.BadParameter("--by compares arms in one window: not --before and --after")
        source = _source(metric, aggregate, collector, None, first, last)
        _run(source, replace(question, by=by), output, metric, as_json=as_json)
        return
    if not (before and after) or aggregate or first or last:
        raise typer.BadParameter(
            "give two windows with --before and --after, or --by SIDE with one window"
        )
    question = replace(question, maps=MapOptions(every_window=True))
    sources = [_window(metric, words, collector) for words in (before, after)]
    groups = [source.read(print_note) for source in sources]
    _decode("compare", groups, metric, question, output, as_json)


def density(
    metric: MetricArgument,
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    split: Annotated[SplitName, typer.Option("--by", help="One map per part.")] = SplitName.WHOLE,
    slot: Annotated[list[str] | None, typer.Option(help="Only these slots.")] = None,
    method: Annotated[MapMethod, typer.Option(help="Estimator of the map.")] = DEFAULT_MAP_METHOD,
    level: shared.Level = DEFAULT_LEVEL,
    alpha: shared.Alpha = DEFAULT_ALPHA,
    repeats: shared.Repeats = None,
    region: RegionFile = None,
    points: PointsFile = None,
    base: BaseFile = None,
    areas: AreasFile = None,
    area_name: Annotated[str, typer.Option(help="Name property in --areas.")] = DEFAULT_AREA_NAME,
    output: shared.OutputFolder = None,
    every_window: Annotated[
        bool, typer.Option(help="All windows in the GeoJSON too, not only each slot's last.")
    ] = False,
    tiles: TilesUrl = "",
    tiles_credit: TilesCredit = "",
    on: shared.Engine = None,
    as_json: shared.Json = False,
) -> None:
    """Map where devices usually are, by slot: table, CSV, Parquet, GeoJSON, PNG, HTML."""
    if every_window and not output:
        raise typer.BadParameter("--every-window goes with -o DIR")
    if area_name != DEFAULT_AREA_NAME and not areas:
        raise typer.BadParameter("--area-name goes with --areas FILE")
    if split is not SplitName.WHOLE and aggregate:
        raise typer.BadParameter("--by needs a collector; each file is a separate window")
    maps = MapOptions(method, tuple(slot or ()), region, points, base, areas,
                      area_name, every_window)  # fmt: skip
    options = DecodeOptions(alpha=alpha, level=level, repeats=repeats)
    behind = Tiles(tiles, tiles_credit) if tiles else None
    counts = _source(metric, aggregate, collector, database, first, last, split).read(print_note)
    with open_executor(on, [KindDecoder.__module__]) if on else nullcontext() as executor:
        question = Question(options=options, maps=maps, executor=executor)
        _decode("decode", [counts], metric, question, output, as_json, "density", behind)
    if not as_json:
        from privacy_audit.findings import trackability_text  # its libraries load slowly

        print_note(trackability_text(location_of(counts[0])[0]))


def flows(
    metric: MetricArgument,
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    prior: KnownFile = None,
    min_km: Annotated[
        float, typer.Option(min=0, help="Hide flows between centers closer than this.")
    ] = DEFAULT_MIN_KM,
    top: Annotated[int, typer.Option(min=0, help="Undetected flows to show.")] = DEFAULT_TOP,
    base: BaseFile = None,
    alpha: shared.Alpha = DEFAULT_ALPHA,
    level: shared.Level = DEFAULT_LEVEL,
    repeats: shared.Repeats = None,
    each: EachOption = None,
    tiles: TilesUrl = "",
    tiles_credit: TilesCredit = "",
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Estimate flows between usual cells: tables, GeoJSON lines, a page with a map.

    rappor flows commute --collector URL --from 2026-11-01 --to 2027-10-31 -o out

    rappor flows commute --aggregate FILE --prior census.csv --min-km 1 --top 50 -o out
    """
    options = DecodeOptions(alpha=alpha, level=level, repeats=repeats)
    question = Question(options=options, flows=FlowOptions(min_km, top, base, prior))
    behind = Tiles(tiles, tiles_credit) if tiles else None
    source = _source(metric, aggregate, collector, database, first, last)
    _run(source, question, output, metric, each=each, as_json=as_json, command="flows",
         tiles=behind)  # fmt: skip


def discover(
    metric: Annotated[str | None, typer.Argument(help="Metric to fetch from a collector.")] = None,
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    alpha: shared.Alpha = DEFAULT_ALPHA,
    level: shared.Level = DEFAULT_LEVEL,
    crowd: Annotated[
        int, typer.Option(min=1, help="Hide strings with fewer estimated reports.")
    ] = DEFAULT_CROWD,
    repeats: shared.Repeats = None,
    approved: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the candidates file -o of the rows that a person approved in "
            "DIR/discovered.csv, and find nothing.",
            exists=True,
        ),
    ] = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Find frequent strings in the reports of a metric of kind 'discover'."""
    if approved:
        _write_approved(approved, output)
        return
    if bool(aggregate) == bool(collector):
        raise typer.BadParameter("give METRIC with --collector URL, or --aggregate FILE")
    source = _source(metric, aggregate, collector, None, first, last)
    options = DecodeOptions(alpha=alpha, level=level, repeats=repeats)
    question = Question(options=options, crowd=crowd)
    _run(source, question, output, metric, as_json=as_json, command="discover")


def _run(
    source: AggregateSource,
    question: Question,
    output: Path | None,
    metric: str | None = None,
    *,
    each: Each | None = None,
    as_json: bool,
    command: str = "",
    tiles: Tiles | None = None,
) -> None:
    started = time.monotonic()
    counts = source.windows(each, print_note) if each else source.read(print_note)
    operation: Operation = "series" if each else "decode"
    summary = _decode(operation, [counts], metric, question, output, as_json, command, tiles)
    if output and isinstance(source, GoogleTables):
        write_metrics_json(summary, time.monotonic() - started, output / "metrics.json")


def _decode(
    operation: Operation,
    groups: Sequence[Sequence[Aggregate]],
    metric: str | None,
    question: Question,
    output: Path | None,
    as_json: bool,
    command: str = "",
    tiles: Tiles | None = None,
) -> dict[str, Any]:
    """Decode counts, write and print the result; return the summary of results.json, or {}.

    If `command` is given, raises DecodeError unless the metric's kind belongs to that command.
    """
    kind = kind_of(groups[0])
    if command and kind.command != command:
        name, of = groups[0][0].metric, groups[0][0].definition.get("kind", "string")
        raise DecodeError(f"metric {name!a} is of kind {of!a}: use rappor {kind.command}")
    for counts in groups:
        if metric is not None:
            check_metric(counts, metric)
    if output:
        claim(output, kind)
    with stage_bars() as progress:
        result = decode_counts(operation, groups, question, progress, print_note)
        written = write_result(result, kind, operation, output, progress, tiles) if output else ()
    print_result(result, kind, written, as_json=as_json)
    summary: dict[str, Any] = result.content.get("summary", {})
    return summary


def _decode_all(
    sources: Mapping[str, AggregateSource], question: Question, output: Path, lists: Path | None,
    each: Each | None, on: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Decode each metric of `sources` as a task; print its result or failure on one line."""
    with open_executor(on or "local", [decode_metrics.__module__]) as run, stage_bars() as progress:
        question = replace(question, progress=progress, note=print_note)
        decoded, failed = decode_metrics(sources, question, output, lists, each, run)
    if as_json:
        print(json.dumps({"decoded": decoded, "failed": failed}))
    else:
        lines = decoded | {name: f"failed: {reason}" for name, reason in failed.items()}
        rows = [[visible(name), visible(line)] for name, line in sorted(lines.items())]
        print_columns(["metric", "result"], rows)
    if failed:
        raise DecodeError(f"{len(failed)} of {len(sources)} metrics failed; the others are written")


def _source(
    metric: str | None,
    aggregate: list[Path] | None,
    collector: str | None,
    database: str | None,
    first: str | None,
    last: str | None,
    split: SplitName | None = None,
) -> AggregateSource:
    """Return the source of counts: files, or days (default: all) of a collector or database."""
    need_one(collector, database, aggregate or ())
    days = read_day(first), read_day(last)
    if aggregate:
        if any(days):
            raise typer.BadParameter("--from and --to need a collector; a file has its own window")
        return AggregateFiles(tuple(aggregate))
    if days[0] and days[1] and days[0] > days[1]:
        raise typer.BadParameter(f"--from {days[0]} is after --to {days[1]}")
    if metric is None:
        raise typer.BadParameter("--collector needs --metric NAME")
    if collector:
        return CollectorWindow(collector, metric, *days, split)
    return StoredWindow(str(database), metric, *days, split)


def _window(metric: str, words: list[str], collector: str | None) -> AggregateSource:
    """Return one window of a comparison: files, or days from a collector."""
    match = _RANGE.fullmatch(words[0])
    if len(words) == 1 and match is not None and match["days"]:
        if not collector:
            raise typer.BadParameter(f"the days {words[0]} need --collector URL")
        first, last = map(read_day, words[0].split(":"))
        return window_of(collector, metric, first, last)
    missing = [word for word in words if not Path(word).exists()]
    if missing:
        raise typer.BadParameter(f"{shown(missing[0])} is neither a file nor days FIRST:LAST")
    return AggregateFiles(tuple(map(Path, words)))


def _question(
    candidates: str | None,
    choices: dict[str, Any],
    map_file: Path | None,
    method: Method,
    correction: Correction,
    alpha: float,
) -> Question:
    if "hash" in choices:
        raise typer.BadParameter("--set hash=NAME goes with --counts")
    choice = _candidates(candidates, choices.pop("column", None), map_file)
    options = DecodeOptions(method=method, correction=correction, alpha=alpha, **choices)
    return Question(choice, options)


def _candidates(text: str | None, column: str | None, map_file: Path | None) -> CandidateChoice:
    """Return the choice of candidates: a file, a range of numbers or days, or a map file."""
    if text is not None and map_file is not None:
        raise typer.BadParameter("give one of --candidates and --map")
    match = None if text is None or Path(text).exists() else _RANGE.fullmatch(text)
    if column and (text is None or match is not None):
        raise typer.BadParameter("column goes with --candidates FILE")
    if match is None or text is None:
        return CandidateChoice(file=Path(text) if text else None, column=column, map_file=map_file)
    if match["days"]:
        return CandidateChoice(dates=tuple(map(read_day, text.split(":"))))
    return CandidateChoice(numbers=tuple(map(int, text.split(":"))))


def _settings(texts: list[str] | None) -> dict[str, Any]:
    choices = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        if name not in _SETTINGS:
            raise typer.BadParameter(f"--set {shown(text)}: the names are {', '.join(_SETTINGS)}")
        try:
            choices[name] = _SETTINGS[name](value)
        except typer.BadParameter as error:
            raise typer.BadParameter(f"--set {name}=VALUE: {error}") from None
    return choices


def _from_0_to_1(text: str) -> float:
    value = number(text)
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{shown(text)} is not from 0 to 1")
    return value


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
    "hash": str,
}


def _write_approved(folder: Path, output: Path | None) -> None:
    from decoder.kinds.discover import approved_strings  # its libraries load slowly

    if output is None:
        raise typer.BadParameter("--approved needs -o FILE for the candidates")
    strings = approved_strings(folder)
    as_json = output.suffix == ".json"
    if not as_json and any(text_problem(string) for string in strings):
        raise DecodeError("a string begins or ends with a space: use -o FILE.json, which keeps it")
    text = json.dumps(strings) if as_json else "".join(f"{string}\n" for string in strings)
    with replacing(output) as part:
        part.write_text(text, encoding="utf-8")
    print(f"{len(strings)} approved strings in {output}, for rappor decode --candidates")
