"""`rappor aggregate METRIC`: fetch the counts of closed days."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from collector.service.collector import COMMAND_LINE
from rappor_cli.close import parse_day
from rappor_cli.remote import ask
from rappor_cli.store import CollectorOption, DatabaseOption, need_one, opened
from rappor_core.aggregate import Aggregate


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
    days = [None if text is None else parse_day(text) for text in (first, last)]
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
    output.write_text(found.to_json(), encoding="utf-8")
    window = f"{found.first_day} to {found.last_day}"
    print(f"{output}: {found.num_reports} reports, {window}", file=sys.stderr)


def fetch_aggregate(
    collector: str,
    metric: str,
    *,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Aggregate:
    """An aggregate from a collector. Raises RemoteError, WireFormatError or AggregateError."""
    query = {
        "params_id": params_id,
        "from": None if first is None else first.isoformat(),
        "to": None if last is None else last.isoformat(),
    }
    return Aggregate.from_json(ask(collector, f"/v1/metrics/{metric}/aggregate", query=query))
