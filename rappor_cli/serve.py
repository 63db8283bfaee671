"""`rappor serve`: run the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from collector.server import serve as run
from collector.settings import load_settings


def serve(
    metrics: Annotated[
        Path | None, typer.Option(help="A metrics.toml to declare at start.")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes (PostgreSQL only).")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Without keys; on loopback only.")] = False,
) -> None:
    """Run the collector until it is told to stop. Every setting can come as RAPPOR_<NAME>."""
    chosen: dict[str, Any] = {
        "metrics": metrics,
        "database": database,
        "host": host,
        "port": port,
        "workers": workers,
        "require_keys": False if open_ else None,
    }
    run(load_settings(**{name: value for name, value in chosen.items() if value is not None}))
