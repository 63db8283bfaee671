"""`rappor clock`: what bears the collector's clock out, and an admin's word that it is right."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from collector.domain.operations import COMMAND_LINE
from rappor_cli import options as shared
from rappor_cli.store import opened
from rappor_core.calendar import date_of


def clock(
    database: shared.Database = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="This machine's clock is right: close days by it.")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Show by which day the collector closes days, or confirm this machine's clock.

    A collector holds closing and deletion while its clock is ahead of the last day seen by more
    than has elapsed.
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
