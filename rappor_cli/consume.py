"""`rappor consume`: count the reports that a broker holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from collector.broker.serving import consume as run
from collector.settings import load_settings
from rappor_cli import options as shared


def consume(
    database: shared.ServedDatabase = None,
    broker: Annotated[str | None, typer.Option(help="HOST:PORT,... of the broker.")] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End when all that is there now is counted.")
    ] = False,
    leave: Annotated[
        bool,
        typer.Option("--leave", help="Likewise; then days close as if there were no broker."),
    ] = False,
) -> None:
    """Count reports from the broker until told to stop. Settings are those of rappor serve."""
    chosen: dict[str, Any] = {"database": database, "broker": broker}
    settings = load_settings(**{name: one for name, one in chosen.items() if one is not None})
    counted = run(settings, until_end=until_end, leave_broker=leave)
    if until_end or leave:
        typer.echo(
            f"{counted.messages} messages: {counted.accepted} reports counted, "
            f"{counted.duplicates} batches counted before, {counted.refused} reports refused, "
            f"{counted.skipped} messages skipped"
        )
