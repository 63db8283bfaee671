"""The commands `rappor close`, which closes days permanently, and `rappor clock`."""

import json
import sys
from datetime import date
from typing import Annotated, Any

import typer

from collector.domain.operations import COMMAND_LINE
from decoder.sources.collector_client import ask_json
from rappor_cli import options as shared
from rappor_cli.numbers import read_day
from rappor_cli.store import need_one, opened
from rappor_core.calendar import date_of
from rappor_core.text import counted


def close(
    day: Annotated[str, typer.Argument(help="YYYY-MM-DD, UTC; today or earlier.")],
    metric: Annotated[str | None, typer.Option(help="Only the days of this metric.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be closed, and close nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")] = False,
    collector: shared.Collector = None,
    database: shared.Database = None,
    as_json: shared.Json = False,
) -> None:
    """Close DAY and all earlier days permanently. They accept no more reports and can be served."""
    need_one(collector, database)
    parsed = read_day(day)
    if dry_run or not yes:
        would = _close(parsed, metric, collector, database, dry_run=True)
        if dry_run:
            _show(would, as_json, "would close through")
            return
        if not sys.stdin.isatty():  # no one can answer: wrong usage (exit 2)
            raise typer.BadParameter(
                "closing days cannot be undone; give --yes to close them, --dry-run to see which"
            )
        through = f"will be closed through {would['closed_through']} permanently. Close?"
        if not typer.confirm(f"{_summary(would)} {through}", err=True):
            raise typer.Exit(1)
    done = _close(parsed, metric, collector, database, dry_run=False)
    _show(done, as_json, "closed through")


def _show(closed: dict[str, Any], as_json: bool, what: str) -> None:
    text = f"{what} {closed['closed_through']}: {_summary(closed)}"
    print(json.dumps(closed) if as_json else text)


def _summary(closed: dict[str, Any]) -> str:
    names = ", ".join(closed["metrics"][:5]) + (", ..." if len(closed["metrics"]) > 5 else "")
    listed = f" ({names})" if names else ""
    days = counted(closed["days_with_reports"], "day")
    return f"{counted(len(closed['metrics']), 'metric')}{listed}, {days} with reports"


def _close(
    day: date, metric: str | None, collector: str | None, database: str | None, *, dry_run: bool
) -> dict[str, Any]:
    if collector is not None:
        path = f"/v1/days/{day.isoformat()}/close"
        query = {"metric": metric, "dry_run": "true" if dry_run else None}
        members = ("closed_through", "metrics", "days_with_reports")
        answer: dict[str, Any] = ask_json(collector, path, *members, method="POST", query=query)
        return answer
    with opened(str(database)) as service:
        if dry_run:
            closed = service.would_close(day, metric)
        else:
            closed = service.close_day(day, COMMAND_LINE, metric)
    return {
        "closed_through": day.isoformat(),
        "metrics": list(closed.metrics),
        "days_with_reports": closed.folded,
    }


def clock(
    database: shared.Database = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="This machine's clock is right: close days by it.")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Show the date by which the collector closes days, or confirm this machine's clock.

    A collector stops closing and deleting if its clock has advanced by more than the elapsed time
    since the last day seen.
    """
    if database is None:
        raise typer.BadParameter("name --database URL")
    with opened(database) as service:
        if confirm:
            service.confirm_clock(COMMAND_LINE)
        day, is_suspect = date_of(service.today).isoformat(), service.is_clock_suspect
    why = "as this machine's clock says"
    if is_suspect:
        why = "since this machine's clock is suspect: correct it, or run rappor clock --confirm"
    print(
        json.dumps({"day": day, "suspect": is_suspect})
        if as_json
        else f"days close by {day}, {why}"
    )
