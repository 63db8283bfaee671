"""`rappor aggregate METRIC`: fetch the counts of closed days."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from collector.domain.operations import COMMAND_LINE
from decoder.files import claim_file
from decoder.sources.collector_client import fetch_aggregate
from rappor_cli.days import read_day
from rappor_cli.store import CollectorOption, DatabaseOption, need_one, opened
from rappor_core.whole_files import write_whole


def aggregate(
    metric: Annotated[str, typer.Argument(help="Its name.")],
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")] = None,
    params_id: Annotated[str | None, typer.Option(help="Version; the current one if none.")] = None,
    collector: CollectorOption = None,
    database: DatabaseOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; else standard output.")
    ] = None,
) -> None:
    """Write the aggregate of METRIC as JSON: reports and bit counts of each cohort."""
    need_one(collector, database)
    if output is not None:
        claim_file(output)
    days = [read_day(text) for text in (first, last)]
    if collector is not None:
        found = fetch_aggregate(collector, metric, params_id=params_id, first=days[0], last=days[1])
    else:
        with opened(str(database)) as service:
            found = service.read_aggregate(
                COMMAND_LINE, metric, params_id=params_id, first=days[0], last=days[1]
            )
    if output is None:
        print(found.to_json())
        return
    write_whole(output, found.to_json())
    window = f"{found.first_day} to {found.last_day}"
    print(f"{output}: {found.num_reports} reports, {window}", file=sys.stderr)
