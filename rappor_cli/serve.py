"""`rappor serve`: run the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from collector.server import serve as run
from collector.settings import load_settings
from rappor_cli import options as shared


def serve(
    metrics: Annotated[
        Path | None, typer.Option(help="A metrics.toml to declare at start.")
    ] = None,
    database: shared.ServedDatabase = None,
    host: shared.Host = None,
    port: shared.Port = None,
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
