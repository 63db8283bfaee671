"""`rappor release`: what may leave the house."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from disclosure.risk import Method, assess_risk, load_domain, read_columns
from rappor_cli import options as shared
from rappor_cli.options import command_group
from rappor_cli.release_build import audit, build, diff, keygen, verify
from rappor_cli.release_clusters import anonymise_table, co_cluster_table
from rappor_cli.release_measures import measure, series
from rappor_cli.release_rows import app as rows_app
from rappor_cli.release_rows import ledger

app = command_group(
    "Judge, make and verify what is published.",
    "rappor release risk table.csv --columns plan,age --domain domain.toml",
)
app.command()(build)
app.command()(audit)
app.command()(diff)
app.command()(verify)
app.command()(keygen)
app.command("co-cluster")(co_cluster_table)
app.command("anonymize")(anonymise_table)
app.command()(ledger)
app.command()(measure)
app.command()(series)
app.add_typer(rows_app, name="synthesize")


@app.callback()
def release() -> None:
    """Judge, make and verify what is published."""


@app.command()
def risk(
    table: shared.Table,
    columns: Annotated[str, typer.Option(help="Identifying columns, separated by commas.")],
    domain: Annotated[Path, typer.Option(help="domain.toml: what each column may hold.")],
    method: Annotated[Method, typer.Option(help="How missing values count.")] = "pesa",
    k: Annotated[int, typer.Option(min=1, help="Exit code 1 if a key has fewer rows.")] = 1,
    as_json: shared.Json = False,
) -> None:
    """Count for each row of TABLE how many rows may share its key, missing values included."""
    names = columns.split(",")
    declared = load_domain(domain).select(names)
    values = read_columns(table, names)
    report = assess_risk(dict(zip(names, values, strict=True)), declared, method)
    below = len(report.rows_below(k))
    if as_json:
        found = {"frequencies": report.frequencies.tolist(), "minimum": report.minimum}
        print(json.dumps(found))
    else:
        print(
            f"{len(report.frequencies)} rows, {method}: a key has {report.minimum} rows or more; "
            f"{below} rows have a key of fewer than {k}"
        )
    if below:
        raise typer.Exit(1)
