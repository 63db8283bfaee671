"""`rappor archive`: move raw reports into Parquet files, and sum them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from archive import export as moving
from archive import google_reports, retention
from archive.aggregate import Wanted, choose_parts
from archive.aggregate import aggregate as sum_parts
from archive.errors import ArchiveError
from archive.keys import ArchiveKey, load_key, make_key
from archive.manifest import ArchivedPart, read_entries
from archive.parts import verify_part
from archive.store import open_store
from archive.tasks import count_part
from rappor_cli import options as shared
from rappor_cli.archive_options import (
    Window,
    key_to_write,
    label_of,
    numbers_of,
    utc_today,
    window_of,
)
from rappor_cli.days import read_day
from rappor_cli.groups import command_group
from rappor_cli.progress import progress_bar
from rappor_cli.store import opened
from rappor_cli.task_pools import Workers, pool_of
from rappor_core.whole_files import replacing, write_whole

app = command_group(
    "Keep raw reports in Parquet files, and sum them.",
    "rappor archive verify archive",
)

FEW_REPORTS = 20_000_000  # summed here sooner than processes start
Archive = Annotated[str, typer.Argument(help="Folder, or URL such as s3://bucket/archive.")]
KeyFile = Annotated[Path | None, typer.Option("--archive-key", help="File of the key.")]
Unencrypted = Annotated[bool, typer.Option("--unencrypted", help="Write in clear.")]
Week = Annotated[str | None, typer.Option(help="One ISO week instead, such as 2026-W47.")]


@app.command()
def key(path: Annotated[Path, typer.Argument(help="New file.")]) -> None:
    """Make a key in a new file. Who loses it loses every archive that it encrypts."""
    made = make_key(path)
    print(f"{path}: key {made.name}; keep a copy apart from the archive", file=sys.stderr)


@app.command()
def export(
    archive: Archive,
    database: Annotated[
        str, typer.Option(envvar="RAPPOR_DATABASE", help="The collector's, as for rappor serve.")
    ],
    metric: Annotated[str | None, typer.Option(help="One metric; all where none is named.")] = None,
    key: KeyFile = None,
    unencrypted: Unencrypted = False,
    as_json: shared.Json = False,
) -> None:
    """Move raw reports of served days out of the collector's database. Each moves once.

    Only metrics with keep_raw_days have any. Run it again after a failure: it goes on. A block
    that is damaged is set aside with the reason, the others move, and the command ends with 1.
    """
    from collector.domain.operations import COMMAND_LINE  # the other commands need no collector

    secret = key_to_write(key, unencrypted)
    store, outcomes = open_store(archive), []
    with opened(database) as service:
        source = service.raw_blocks(COMMAND_LINE, metric)
        for outcome in moving.export(source, store, secret, utc_today()):
            outcomes.append(outcome)
            days = f"{outcome.first_day} to {outcome.last_day}"
            days = "of unknown days" if outcome.first_day is None else days
            line = f"{outcome.metric} {days}: {outcome.num_reports} reports {outcome.what}"
            print(line + f" ({outcome.reason})" * bool(outcome.reason), file=sys.stderr)
    moved = sum(one.num_reports for one in outcomes if one.what == moving.MOVED)
    aside = sum(one.what == moving.SET_ASIDE for one in outcomes)
    if as_json:
        rows = [
            {
                "metric": one.metric,
                "first_day": one.first_day and str(one.first_day),
                "last_day": one.last_day and str(one.last_day),
                "reports": one.num_reports,
                "what": one.what,
                "reason": one.reason,
            }
            for one in outcomes
        ]
        print(json.dumps({"moved": moved, "blocks": rows}))
    else:
        print(f"{archive}: {moved} reports moved, of {len(outcomes)} blocks", file=sys.stderr)
    if aside:
        raise ArchiveError(
            f"{aside} of {len(outcomes)} blocks set aside, as named above; their raw reports stay "
            "in the database until keep_raw_days are over"
        )


@app.command()
def aggregate(
    archive: Archive,
    metric: shared.Metric,
    params_id: shared.ParamsId = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    week: Week = None,
    cohorts: Annotated[str | None, typer.Option(help="Only these, such as 0-3,7.")] = None,
    key: KeyFile = None,
    workers: Workers = None,
    output: shared.FileOrScreen = None,
) -> None:
    """Sum the reports of METRIC: the same aggregate that the collector gives for those days."""
    parts = _parts(archive, metric, params_id, window_of(first, last, week), load_key(key))
    total = sum(part.num_reports for part in parts)
    few = workers is None and total < FEW_REPORTS
    with progress_bar("reports", total) as advance:
        found = sum_parts(
            parts,
            archive,
            None if key is None else str(key.resolve()),
            pool_of(count_part, 1 if few else workers, ["archive.tasks"]),
            cohorts=None if cohorts is None else numbers_of(cohorts),
            advance=advance,
        )
    if output is None:
        print(found.to_json())
        return
    write_whole(output, found.to_json())
    days = f"{found.first_day} to {found.last_day}" if found.first_day else "days not known"
    print(f"{output}: {found.num_reports} reports, {days}", file=sys.stderr)


@app.command()
def expire(
    archive: Archive,
    metric: Annotated[str | None, typer.Option(help="With --before: sooner than promised.")] = None,
    before: Annotated[str | None, typer.Option(help="Delete parts that begin before it.")] = None,
    key: KeyFile = None,
) -> None:
    """Delete the parts whose retention date is over. Run it every day."""
    if (metric is None) != (before is None):
        raise typer.BadParameter("--metric and --before go together")
    gone = retention.expire(
        open_store(archive), load_key(key), utc_today(), metric=metric, before=read_day(before)
    )
    print(
        f"{archive}: {gone.parts} parts deleted, {gone.reports} reports; {gone.orphans} files "
        "without an entry",
        file=sys.stderr,
    )


@app.command()
def verify(archive: Archive, key: KeyFile = None) -> None:
    """Read every part whole, and hold it against its digest and its sums."""
    store, secret = open_store(archive), load_key(key)
    parts = [entry for entry in read_entries(store, secret) if not entry.expired]
    with progress_bar("reports", sum(part.num_reports for part in parts)) as advance:
        for part in parts:
            verify_part(store, secret, part)
            advance(part.num_reports)
    print(f"{archive}: {len(parts)} parts are whole", file=sys.stderr)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="google/rappor's report CSV.")],
    archive: Archive,
    metric: Annotated[str, typer.Option(help="The name of the metric.")],
    metrics: Annotated[Path | None, typer.Option(help="metrics.toml that declares it.")] = None,
    params: Annotated[Path | None, typer.Option(help="Or google/rappor's params.csv.")] = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    keep_days: Annotated[
        int | None, typer.Option(min=1, help="How long it is kept; else keep_raw_days.")
    ] = None,
    key: KeyFile = None,
    unencrypted: Unencrypted = False,
) -> None:
    """Make google/rappor's report file a part of an archive; who sent what is dropped."""
    label, declared = label_of(
        metric, metrics, params, (read_day(first), read_day(last)), keep_days
    )
    secret = key_to_write(key, unencrypted)
    entry = google_reports.import_reports(file, open_store(archive), secret, label, declared)
    print(f"{archive}: {entry.num_reports} reports, kept until {entry.keep_until}", file=sys.stderr)


@app.command()
def csv(
    archive: Archive,
    metric: shared.Metric,
    output: shared.OutputFile,
    params_id: shared.ParamsId = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    week: Week = None,
    key: KeyFile = None,
) -> None:
    """Write single reports as google/rappor's report CSV: as sensitive as the archive."""
    secret = load_key(key)
    parts = _parts(archive, metric, params_id, window_of(first, last, week), secret)
    written = 0
    with (
        _new_file(output) as text,
        progress_bar("reports", sum(p.num_reports for p in parts)) as on,
    ):
        for number in google_reports.write_csv(text, parts, open_store(archive), secret):
            written += number
            on(number)
    print(f"{output}: {written} reports", file=sys.stderr)


@contextmanager
def _new_file(output: Path) -> Iterator[Any]:
    """A file for its owner alone, which appears when it is whole."""
    with replacing(output) as part:
        part.touch(mode=0o600)
        with part.open("w", encoding="ascii") as text:
            yield text


def _parts(
    archive: str,
    metric: str,
    params_id: str | None,
    window: Window,
    key: ArchiveKey,
) -> list[ArchivedPart]:
    return choose_parts(open_store(archive), key, Wanted(metric, params_id, *window), utc_today())
