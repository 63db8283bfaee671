"""`rappor flows METRIC`: who is usually in one cell and then in another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decoder.options import DecodeOptions
from decoder.output.base_layer import read_base
from decoder.output.flows_content import MIN_KM, TOP, FlowDisplay
from decoder.sources.aggregates import AggregateFiles, AggregateSource, CollectorWindow
from decoder.workflows.flows import FlowsJob, run_flows
from decoder.workflows.kinds import FetchedCounts
from rappor_cli import options as shared
from rappor_cli.decode_tables import print_answer
from rappor_cli.numbers import read_day
from rappor_cli.progress import stage_bars
from rappor_cli.store import need_one, stored_counts
from rappor_cli.text import print_note


def flows(
    metric: Annotated[str, typer.Argument(help="Its declared name, of kind flow.")],
    aggregate: shared.AggregateFiles = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            help="CSV of a known matrix: origin,destination,count, such as the last census.",
            exists=True,
        ),
    ] = None,
    min_km: Annotated[
        float, typer.Option(min=0, help="Show no flow between centres nearer than that.")
    ] = MIN_KM,
    top: Annotated[
        int, typer.Option(min=0, help="Show so many flows besides those detected.")
    ] = TOP,
    base: Annotated[
        Path | None,
        typer.Option(help="GeoJSON of streets, districts or stations, to be drawn.", exists=True),
    ] = None,
    alpha: shared.Alpha = 0.05,
    level: shared.Level = 0.95,
    repeats: shared.Repeats = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Flows between usual cells: tables, GeoJSON lines, a page with a map.

    rappor flows commute --collector URL --from 2026-11-01 --to 2027-10-31 -o out

    rappor flows commute --aggregate FILE --prior census.csv --min-km 1 --top 50 -o out
    """
    job = FlowsJob(
        _source(metric, aggregate, collector, database, first, last),
        metric,
        DecodeOptions(alpha=alpha, level=level, repeats=repeats),
        prior,
        FlowDisplay(min_km, top, read_base(base) if base else None),
        output,
    )
    with stage_bars() as progress:
        answer = run_flows(job, progress, print_note)
    print_answer(answer, output, as_json)


def _source(
    metric: str,
    aggregate: list[Path] | None,
    collector: str | None,
    database: str | None,
    first: str | None,
    last: str | None,
) -> AggregateSource:
    """Files, or the days of a collector or its database; without days all that it serves."""
    need_one(collector, database, aggregate or ())
    days = read_day(first), read_day(last)
    if aggregate:
        if any(days):
            raise typer.BadParameter("--from and --to ask a collector; a file is its own days")
        return AggregateFiles(tuple(aggregate))
    if collector:
        return CollectorWindow(collector, metric, *days)
    return FetchedCounts((stored_counts(str(database), metric, *days),))
