"""`rappor archive`: move raw reports into Parquet files, and sum and verify them."""

import json
import sys
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from collector.archive import export as moving
from collector.archive.parts import ArchivedPart, read_entries, verify_part
from collector.archive.store import ArchiveError, open_store
from collector.archive.sums import SpanTask, aggregate, choose_parts, count_part, sum_report_file
from rappor_cli import options as shared
from rappor_cli.numbers import read_day
from rappor_cli.options import command_group
from rappor_cli.progress import progress_bar
from rappor_cli.store import opened
from rappor_core.aggregate import Aggregate
from rappor_core.tasks import open_executor, run_tasks
from rappor_core.whole_files import write_whole

app = command_group(
    "Keep raw reports in Parquet files, and sum them.",
    "rappor archive verify archive",
)

FEW_REPORTS = 20_000_000  # with fewer, one process is faster than several
Archive = Annotated[str, typer.Argument(help="Folder, or URL such as s3://bucket/archive.")]


@app.command()
def export(
    archive: Archive,
    database: Annotated[
        str, typer.Option(envvar="RAPPOR_DATABASE", help="The collector's, as for rappor serve.")
    ],
    metric: Annotated[str | None, typer.Option(help="One metric; all by default.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Move raw reports of served days out of the collector's database. Each report moves once.

    Only metrics with keep_raw_days have any. After a failure, run it again to continue. A damaged
    block is skipped with a reason, the others move, and the command exits with 1.
    """
    from collector.domain.operations import COMMAND_LINE  # the other commands need no database

    store, outcomes = open_store(archive), []
    with opened(database) as service:
        source = service.raw_blocks(COMMAND_LINE, metric)
        for outcome in moving.export(source, store, datetime.now(UTC).date()):
            outcomes.append(outcome)
            days = f"{outcome.first_day} to {outcome.last_day}"
            days = "of unknown days" if outcome.first_day is None else days
            line = f"{outcome.metric} {days}: {outcome.num_reports} reports {outcome.what}"
            print(line + f" ({outcome.reason})" * bool(outcome.reason), file=sys.stderr)
    moved = sum(item.num_reports for item in outcomes if item.what == moving.MOVED)
    aside = sum(item.what == moving.SET_ASIDE for item in outcomes)
    if as_json:
        rows = [asdict(item) for item in outcomes]
        for row in rows:
            row["reports"] = row.pop("num_reports")
        print(json.dumps({"moved": moved, "blocks": rows}, default=str))
    else:
        print(f"{archive}: {moved} reports moved, of {len(outcomes)} blocks", file=sys.stderr)
    if aside:
        raise ArchiveError(
            f"{aside} of {len(outcomes)} blocks set aside, as named above; their raw reports stay "
            "in the database until keep_raw_days are over"
        )


@app.command("sum")
def sum_(
    archive: Annotated[
        str, typer.Argument(help="Folder, URL, or with --params google/rappor's report CSV.")
    ],
    metric: shared.Metric,
    params_id: shared.ParamsId = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    cohorts: Annotated[str | None, typer.Option(help="Only these, such as 0-3,7.")] = None,
    params: Annotated[Path | None, typer.Option(help="google/rappor's params.csv.")] = None,
    on: shared.Engine = None,
    output: shared.FileOrScreen = None,
) -> None:
    """Sum the reports of METRIC. The result equals the collector's aggregate for those days."""
    if params is not None:
        if params_id or first or last or cohorts or on:
            raise typer.BadParameter("--params goes with a report CSV and -o alone")
        from decoder.formats.google_rappor import read_params  # loads the decoder's libraries

        whole = sum_report_file(Path(archive), metric, read_params(params))
    else:
        window = read_day(first), read_day(last)
        parts = choose_parts(open_store(archive), metric, params_id, *window)
        whole = _sum(archive, parts, on, None if cohorts is None else _numbers(cohorts))
    if output is None:
        print(whole.to_json())
        return
    write_whole(output, whole.to_json())
    days = f"{whole.first_day} to {whole.last_day}" if whole.first_day else "days not known"
    print(f"{output}: {whole.num_reports} reports, {days}", file=sys.stderr)


@app.command()
def verify(archive: Archive, on: shared.Engine = None) -> None:
    """Read every part completely, and check its digest and sums."""
    if not (parts := list(read_entries(open_store(archive)))):
        raise ArchiveError(f"{archive}: there are no parts; check the path")
    total = sum(part.num_reports for part in parts)
    with _executor(on, total) as executor, progress_bar("reports", total) as advance:
        for part, _ in run_tasks(partial(_verify, archive), parts, executor):
            advance(part.num_reports)
    print(f"{archive}: {len(parts)} parts are whole", file=sys.stderr)


def _sum(
    archive: str, parts: list[ArchivedPart], on: str | None, cohorts: set[int] | None
) -> Aggregate:
    total = sum(part.num_reports for part in parts)
    with _executor(on, total) as executor, progress_bar("reports", total) as advance:
        run = partial(run_tasks, count_part, executor=executor)
        return aggregate(parts, archive, run, cohorts=cohorts, advance=advance)


def _verify(archive: str, part: ArchivedPart) -> None:
    verify_part(open_store(archive), part)


def _executor(on: str | None, num_reports: int) -> AbstractContextManager[Executor | None]:
    if on is None and num_reports < FEW_REPORTS:
        return nullcontext()
    return open_executor(on or "local", [SpanTask.__module__])


def _numbers(text: str) -> set[int]:
    numbers: set[int] = set()
    for piece in text.split(","):
        low, _, high = piece.strip().partition("-")
        if not (low.isdecimal() and (high or low).isdecimal() and len(high + low) < 16):
            raise typer.BadParameter(f"--cohorts {text!r}: give numbers and ranges such as 0-3,7")
        if int(high or low) - int(low) > 1 << 20:
            raise typer.BadParameter(f"--cohorts {text!r}: the range is too long")
        numbers |= set(range(int(low), int(high or low) + 1))
    return numbers
