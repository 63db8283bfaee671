"""`rappor close DAY`: close a day, and all before it, for good."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any

import typer

from collector.service.collector import COMMAND_LINE
from rappor_cli.days import read_day
from rappor_cli.remote import ask_json
from rappor_cli.store import CollectorOption, DatabaseOption, JsonOption, need_one, opened


def close(
    day: Annotated[str, typer.Argument(help="YYYY-MM-DD, UTC; today or earlier.")],
    metric: Annotated[str | None, typer.Option(help="Only the days of this metric.")] = None,
    collector: CollectorOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close DAY and every day before it: no more reports, and they can be served. For good."""
    need_one(collector, database)
    closed = _close(read_day(day), metric, collector, database)
    if as_json:
        print(json.dumps(closed))
        return
    print(
        f"closed through {closed['closed_through']}: {len(closed['metrics'])} metrics, "
        f"{closed['days_with_reports']} days with reports"
    )


def _close(
    day: date, metric: str | None, collector: str | None, database: str | None
) -> dict[str, Any]:
    if collector is not None:
        path = f"/v1/days/{day.isoformat()}/close"
        answer: dict[str, Any] = ask_json(collector, path, method="POST", query={"metric": metric})
        return answer
    with opened(str(database)) as service:
        closed = service.close_day(day, COMMAND_LINE, metric)
    return {
        "closed_through": day.isoformat(),
        "metrics": list(closed.metrics),
        "days_with_reports": closed.folded,
    }
