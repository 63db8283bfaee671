"""`rappor serve`, which runs the collector, and `rappor consume`, which counts broker reports."""

from pathlib import Path
from typing import Annotated, Any

import typer

from collector.server import serve as run
from collector.settings import Settings, load_settings
from rappor_cli import options as shared


def serve(
    metrics: Annotated[Path | None, typer.Option(help="metrics.toml to declare at start.")] = None,
    database: shared.ServedDatabase = None,
    host: shared.Host = None,
    port: shared.Port = None,
    workers: Annotated[int | None, typer.Option(help="Processes (PostgreSQL only).")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Without keys; loopback only.")] = False,
) -> None:
    """Run the collector until it is stopped. Every setting can also be given as RAPPOR_<NAME>."""
    settings = _settings(
        metrics=metrics, database=database, host=host, port=port, workers=workers,
        require_keys=False if open_ else None,
    )  # fmt: skip
    run(settings)


def consume(
    database: shared.ServedDatabase = None,
    broker: Annotated[str | None, typer.Option(help="HOST:PORT,... of the broker.")] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Exit when all current messages are counted.")
    ] = False,
    leave: Annotated[
        bool,
        typer.Option("--leave", help="Like --until-end; then days close without the broker."),
    ] = False,
) -> None:
    """Count reports from the broker until stopped. Settings are the same as for rappor serve."""
    from collector.broker.consumer import consume as count

    counted = count(
        _settings(database=database, broker=broker), until_end=until_end, leave_broker=leave
    )
    if until_end or leave:
        typer.echo(
            f"{counted.messages} messages: {counted.accepted} reports counted, "
            f"{counted.duplicates} batches counted before, {counted.refused} reports refused, "
            f"{counted.skipped} messages skipped"
        )


def _settings(**chosen: Any) -> Settings:
    return load_settings(**{name: value for name, value in chosen.items() if value is not None})
