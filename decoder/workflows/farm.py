"""Many decodings: every metric, each window, as tasks for a pool; the same bytes as one by one.

A task holds its counts and its options, and gives back the contents of its files, so that a worker
on another machine needs neither the collector nor a disk that is shared.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path
from time import process_time
from urllib.parse import quote

from decoder.files import read_aggregate_file, write_files
from decoder.options import DecodeOptions
from decoder.progress import Note, quiet
from decoder.sources.collector_client import ask_json
from decoder.sources.windows import Each, windows_of_collector, windows_of_files
from decoder.workflows.decoding import CandidateChoice, DecodeJob, run_decode
from decoder.workflows.kinds import FetchedCounts, KindAnswer, run_own
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError


@dataclass(frozen=True)
class WindowTask:
    """The work of decoding one window of one metric. folder: of its files, below that of all."""

    aggregate: Aggregate
    candidates: CandidateChoice
    options: DecodeOptions
    folder: str


@dataclass(frozen=True)
class WindowResult:
    """A worker's result for one window.

    detected: values found; None of kinds with a decoder of their own.  seconds: of the processor.
    worker: host and process.  files: contents by name.  refused: why there are none.
    """

    detected: int | None
    seconds: float
    worker: str
    files: dict[str, bytes] = field(default_factory=dict)
    refused: str | None = None


def tasks_of_collector(
    collector: str,
    each: Each,
    first: date,
    last: date,
    choice: CandidateChoice,
    options: DecodeOptions,
    note: Note = quiet,
) -> Iterator[WindowTask]:
    """Yield a task for each window of each current metric, up to the last served day of each
    metric.

    What is not served is told to `note`.

    choice: for metrics of strings; others have their own values. Raises RemoteError.
    """
    for listed in ask_json(collector, "/v1/metrics", "metrics")["metrics"]:
        if listed.get("state") not in ("current", "expired") or not listed.get("served"):
            continue
        name = str(listed["name"])
        until = min(last, date.fromisoformat(listed["served"]["last_day"]))
        try:
            windows = list(windows_of_collector(collector, name, each, first, until, note))
        except RapporError as error:
            note(f"left out {name}: {error}")
            continue
        yield from _tasks(windows, choice, options, note)


def tasks_of_files(
    paths: Sequence[Path],
    each: Each,
    choice: CandidateChoice,
    options: DecodeOptions,
    note: Note = quiet,
) -> Iterator[WindowTask]:
    """A task for each window of each metric in aggregate files. Raises AggregateError."""

    def series(aggregate: Aggregate) -> tuple[str, str]:
        return aggregate.metric, aggregate.params_id

    found = sorted(map(read_aggregate_file, paths), key=series)
    groups = {key: list(group) for key, group in groupby(found, series)}
    versions = Counter(metric for metric, _ in groups)
    for (metric, params_id), group in groups.items():
        windows = windows_of_files(group, each)
        version = f"@{params_id}" if versions[metric] > 1 else ""
        yield from _tasks(windows, choice, options, note, version)


def _tasks(
    windows: Iterable[Aggregate],
    choice: CandidateChoice,
    options: DecodeOptions,
    note: Note,
    version: str = "",
) -> Iterator[WindowTask]:
    """version: ends the name of the folder, where a metric has several."""
    for window in windows:
        hashed = window.params.scheme.hashed
        if hashed and choice == CandidateChoice():
            note(f"left out {window.metric}: strings must be guessed: give --candidates")
            return
        folder = f"metric={quote(window.metric + version, safe='@')}/{window.first_day}"
        yield WindowTask(window, choice if hashed else CandidateChoice(), options, folder)


def decode_window(task: WindowTask) -> WindowResult:
    """Decode one window as `rappor decode` does; a refused window is reported and does not stop
    the others."""
    started, worker = process_time(), f"{socket.gethostname()}:{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="rappor-decode-") as folder:
        output = Path(folder) / "files"
        job = DecodeJob(FetchedCounts((task.aggregate,)), task.candidates, task.options, output)
        try:
            answer = run_own(job)
            detected = None
            if not isinstance(answer, KindAnswer):
                detected = run_decode(answer).summary.num_detected
        except RapporError as error:
            return WindowResult(None, process_time() - started, worker, refused=str(error))
        files = {path.name: path.read_bytes() for path in sorted(output.iterdir())}
    return WindowResult(detected, process_time() - started, worker, files)


def write_result(task: WindowTask, result: WindowResult, directory: Path) -> None:
    """Write a window's files below a folder, each whole or not at all. Raises OutputError."""
    contents = {name: partial(_put, content) for name, content in result.files.items()}
    if contents:
        write_files(directory / task.folder, contents)


def _put(content: bytes, path: Path) -> None:
    path.write_bytes(content)
