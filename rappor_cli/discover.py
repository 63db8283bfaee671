"""`rappor discover`: frequent strings that no list holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from decoder.discovery.discovery import DiscoverOptions, Discovery
from decoder.files import replacing
from decoder.output.discovery_files import (
    approved_strings,
    discovery_json,
)
from decoder.output.discovery_text import role, shown_string, statement
from decoder.results.warnings import percent
from decoder.sources.aggregates import AggregateFiles, AggregateSource, CollectorWindow
from decoder.workflows.discovery import DiscoverJob, run_discovery
from rappor_cli import options as shared
from rappor_cli.numbers import read_day
from rappor_cli.progress import stage_bars
from rappor_cli.text import plain

_SHOWN = 25
_REVIEW = "devices chose this text: a person must read it before it is published"


def discover(
    metric: Annotated[str | None, typer.Argument(help="Metric to fetch from a collector.")] = None,
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    alpha: shared.Alpha = 0.05,
    level: shared.Level = 0.95,
    crowd: Annotated[
        int, typer.Option(min=1, help="Name no string with fewer estimated reports.")
    ] = 1_000,
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
        _write_candidates(approved, output)
        return
    source = _source(metric, aggregate, collector, first, last)
    options = DiscoverOptions(alpha=alpha, level=level, crowd=crowd, repeats=repeats)
    with stage_bars() as progress:
        discovery = run_discovery(DiscoverJob(source, options, output), progress)
    if as_json:
        print(discovery_json(discovery), end="")
    else:
        _print(discovery, output)


def _write_candidates(folder: Path, output: Path | None) -> None:
    if output is None:
        raise typer.BadParameter("--approved needs -o FILE for the candidates")
    strings = approved_strings(folder)
    with replacing(output) as part:
        part.write_text("".join(f"{string}\n" for string in strings), encoding="utf-8")
    print(f"{len(strings)} approved strings in {output}, for rappor decode --candidates")


def _source(
    metric: str | None,
    paths: list[Path] | None,
    collector: str | None,
    first: str | None,
    last: str | None,
) -> AggregateSource:
    if bool(paths) == bool(collector):
        raise typer.BadParameter("give METRIC with --collector URL, or --aggregate FILE")
    if paths:
        if metric or first or last:
            raise typer.BadParameter("METRIC, --from and --to go with --collector")
        return AggregateFiles(tuple(paths))
    if not (metric and collector):
        raise typer.BadParameter("--collector needs METRIC")
    return CollectorWindow(collector, metric, read_day(first), read_day(last))


def _print(discovery: Discovery, output: Path | None) -> None:
    console = Console()
    if discovery.found:
        console.print(_table(discovery))
    for sentence in statement(discovery):
        console.print(Text(sentence), soft_wrap=True)
    if discovery.found:
        console.print(Text(_REVIEW))
    if output:
        console.print(Text(f"files in {output}: discovered.csv, discovered.json, discovery.html"))


def _table(discovery: Discovery) -> Table:
    table = Table(title=plain(f"{discovery.metric}: {len(discovery.found)} strings found"))
    table.add_column("string", overflow="fold")
    for name in ("share", "interval", "corrected p"):
        table.add_column(name, justify="right")
    for row in discovery.found[:_SHOWN]:
        told = shown_string(row) + role(row)
        interval = f"{percent(row.low)} to {percent(row.high)}"
        table.add_row(Text(told), percent(row.estimate), interval, f"{row.p_adjusted:.1e}")
    if len(discovery.found) > _SHOWN:
        more = len(discovery.found)
        table.caption = f"the {_SHOWN} largest of {more}; discovered.csv has all"
    return table
