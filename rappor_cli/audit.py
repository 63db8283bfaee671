"""`rappor audit`: check that a client keeps the promises of its metrics."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from decoder.files import probe_file
from privacy_audit.audit import MAX_TRIALS, TRIALS, AuditOptions, AuditResult
from privacy_audit.audit import audit as run_audit
from privacy_audit.report import (
    DEFAULT_METRICS,
    consequence,
    identity,
    nats,
    page,
    percent,
    to_dict,
)
from rappor_cli.progress import stage_bars
from rappor_cli.text import text_table
from rappor_core.metrics.compiled import load_metrics
from rappor_core.whole_files import write_whole

MAX_PROCESSES = 8


def audit(
    metrics: Annotated[
        Path | None,
        typer.Argument(help="metrics.toml, or compiled; by default one metric of each kind."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="A metric in the file; may be repeated.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command", "--client", help="Audit this program (docs/audit.md), not the SDK."
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option("--app", help="With --command: the same client in an app (docs/audit.md)."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=2_000, help=f"Devices per metric; default: {TRIALS:,} in total. 2000: a first look."
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="False alarm rate of the whole audit.")
    ] = 0.01,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Parallel programs; by default one per processor."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="JSON file for all findings.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a page for the privacy officer.")
    ] = None,
) -> None:
    """Attack a client that is reopened between reports; exit code 1 if a claim is broken.

    Figures are printed as they are measured. After Ctrl-C, the completed part is evaluated, printed
    and written.
    """
    file = load_metrics(metrics or DEFAULT_METRICS)
    names = tuple(metric or ())
    number = len(names) or len(file.declared)
    options = AuditOptions(
        trials=trials or min(MAX_TRIALS, max(2_000, TRIALS // number)),
        alpha=alpha,
        processes=processes or min(os.cpu_count() or 1, MAX_PROCESSES),
    )
    for path in filter(None, (json_file, output)):
        probe_file(path)
    with stage_bars() as show:

        def progress(line: str, done: float, total: float) -> None:
            show("audit", done, total)
            if line:
                print(line, file=sys.stderr)  # above the bar

        progress("", 0, 1)  # the elapsed time starts here
        result = run_audit(file, options, names=names, command=command, app=app, progress=progress)
    today, audited = datetime.now(UTC).date(), identity(command)
    if json_file is not None:
        write_whole(json_file, json.dumps(to_dict(result, today, audited), indent=1) + "\n")
    if output is not None:
        write_whole(output, page(result, today, audited))
    _print(result)
    if result.stopped:
        raise KeyboardInterrupt
    if result.broken:
        raise typer.Exit(1)


def _print(result: AuditResult) -> None:
    console = Console()
    headings = ("two lives", "devices", "claim", "lower bound", "of the claim", "found from")
    rows = [
        (f"{check.metric}: {check.what}", f"{attack.trials:,}", nats(check.claim),
         nats(attack.bound), percent(check.share), nats(attack.needed))
        for check in result.checks if (attack := check.attack) is not None
    ]  # fmt: skip
    console.print(text_table(f"Attacks on {result.client}", headings, rows))
    for note in result.notes:
        console.print(note, soft_wrap=True, highlight=False)
    for check in result.broken:
        where = f"{check.metric}: " if check.metric else ""
        console.print(f"broken: {consequence(check)}", soft_wrap=True)
        console.print(f"  {where}{check.what} ({check.part}): {check.found}", soft_wrap=True)
    for check in result.untested:
        console.print(f"not tested: {check.metric}: {check.what}", soft_wrap=True, highlight=False)
    console.print(result.verdict)
