"""`rappor aggregate`, which fetches counts of closed days, and `rappor reports export`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from collector.domain.operations import COMMAND_LINE
from collector.domain.raw_blocks import as_lines
from collector.routes.admin import COUNT_HEADER
from decoder.errors import RemoteError
from decoder.files import claim_file
from decoder.sources.collector_client import answer_of, fetch_aggregate
from rappor_cli import options as shared
from rappor_cli.numbers import read_day
from rappor_cli.options import command_group
from rappor_cli.progress import progress_bar
from rappor_cli.store import StoredWindow, need_one, opened
from rappor_core.whole_files import replacing, write_whole

app = command_group(
    "Export raw reports.",
    "rappor reports export homepage -o homepage.ndjson --database sqlite:///collector.sqlite",
)
Lines = tuple[int, Iterator[bytes]]  # the number of lines, and pieces of whole lines


def aggregate(
    metric: shared.Metric,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params_id: shared.ParamsId = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    output: shared.FileOrScreen = None,
) -> None:
    """Write the aggregate of METRIC as JSON: reports and bit counts for each cohort."""
    need_one(collector, database)
    if output is not None:
        claim_file(output)
    days = read_day(first), read_day(last)
    if collector is not None:
        whole = fetch_aggregate(collector, metric, params_id=params_id, first=days[0], last=days[1])
    else:
        (whole,) = StoredWindow(str(database), metric, *days, params_id=params_id).read()
    if output is None:
        print(whole.to_json())
        return
    write_whole(output, whole.to_json())
    window = f"{whole.first_day} to {whole.last_day}"
    print(f"{output}: {whole.num_reports} reports, {window}", file=sys.stderr)


@app.callback()
def _group() -> None:
    """Export raw reports if a metric stores them (keep_raw_days)."""


@app.command()
def export(
    metric: shared.Metric,
    output: shared.OutputFile,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params_id: shared.ParamsId = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
) -> None:
    """Write the raw reports of closed days as JSON lines. Requires an admin key; audited.

    Only reports that METRIC stores (keep_raw_days) are available. The file appears when complete.
    """
    need_one(collector, database)
    days = read_day(first), read_day(last)
    lines = (
        _from_collector(collector, metric, params_id, *days)
        if collector is not None
        else _from_database(str(database), metric, params_id, *days)
    )
    with replacing(output) as part:
        with lines as (total, pieces):
            written = _write(part, total, pieces)
        if written != total:
            raise RemoteError(
                f"received {written} of {total} reports: some were deleted meanwhile because "
                "keep_raw_days were over; request later days"
            )
    print(f"{output}: {written} reports", file=sys.stderr)


def _write(part: Path, total: int, pieces: Iterator[bytes]) -> int:
    """Write pieces of lines to a file; return the number of lines. `total` is expected."""
    written = 0
    part.touch(mode=0o600)  # raw reports are readable only by their owner, like a backup
    with part.open("wb") as file, progress_bar("reports", total) as advance:
        for piece in pieces:
            file.write(piece)
            lines = piece.count(b"\n")
            written += lines
            advance(lines)
    return written


@contextmanager
def _from_database(
    database: str, metric: str, params_id: str | None, first: date | None, last: date | None
) -> Iterator[Lines]:
    with opened(database) as service:
        total, pages = service.export_reports(
            COMMAND_LINE, metric, params_id=params_id, first=first, last=last
        )
        yield total, map(as_lines, pages)


@contextmanager
def _from_collector(
    collector: str, metric: str, params_id: str | None, first: date | None, last: date | None
) -> Iterator[Lines]:
    query = {
        "params_id": params_id,
        "from": None if first is None else first.isoformat(),
        "to": None if last is None else last.isoformat(),
    }
    with answer_of(collector, f"/v1/metrics/{metric}/reports", query=query) as answer:
        stated = answer.headers.get(COUNT_HEADER, "")
        if not stated.isdigit():
            raise RemoteError(f"the server at {collector} is not a collector")
        yield int(stated), iter(lambda: answer.read(1 << 16), b"")
