"""Decode jobs, from a source of aggregates to files: shared by the command line and a service.

Progress and notes come in as functions. Errors are RapporError.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from decoder.candidates.files import column_taken
from decoder.candidates.lists import Candidates, metric_candidates
from decoder.errors import CandidatesError
from decoder.files import claim_folder, make_folder
from decoder.formats.google_rappor import read_map, write_metrics_json
from decoder.options import DecodeOptions
from decoder.output.decoding_files import MARK, OUTPUTS, write_outputs
from decoder.output.flows_content import FlowDisplay
from decoder.output.series_files import write_series
from decoder.pipeline import decode
from decoder.progress import (
    Note,
    Progress,
    quiet,
    silent,
)
from decoder.results.tables import Decoding
from decoder.series.series import Series, decode_over_time
from decoder.sources.aggregates import AggregateSource, GoogleTables
from decoder.sources.windows import Each
from rappor_core.aggregate import Aggregate


@dataclass(frozen=True)
class CandidateChoice:
    """The list to look for: one of file, numbers, dates and map_file, or else the metric's own.

    file: of values, with the column of a table.  numbers: first, last and perhaps a step.
    dates: first and last.  map_file: google/rappor's map.csv.

    Raises CandidatesError for more than one.
    """

    file: Path | None = None
    column: str | None = None
    numbers: tuple[int, ...] | None = None
    dates: tuple[date, ...] | None = None
    map_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what would be ignored."""
        given = (self.file, self.numbers, self.dates, self.map_file)
        if sum(one is not None for one in given) > 1:
            raise CandidatesError("give one of a file of candidates, numbers, dates and a map")


@dataclass(frozen=True)
class DecodeJob:
    """A decoding, or by `each` a series of them.

    output: the folder of its files.
    known, display: of flows, a file of a known matrix, and which are shown.
    """

    source: AggregateSource
    candidates: CandidateChoice = field(default_factory=CandidateChoice)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    output: Path | None = None
    known: Path | None = None
    display: FlowDisplay = field(default_factory=FlowDisplay)


def run_decode(
    job: DecodeJob,
    progress: Progress = silent,
    note: Note = quiet,
) -> Decoding:
    """Read the aggregate, take the candidates, decode, and write the files.

    Args:
        job: what is wanted.
        progress: called with (stage, done, total).
        note: called with a sentence on what was left out or taken.

    Returns:
        The decoding; it is in the files, too, if the job names a folder.

    Raises:
        RapporError: what the source, the candidates, the decoder or the disk refuse.
    """
    started = time.monotonic()
    source = job.source.read()
    # the list is in no variable here: it would be held while files are written
    decoding = decode(source, _prepared(job, source, note), job.options, progress)
    if job.output:
        write_outputs(decoding, job.output, progress)
        if isinstance(job.source, GoogleTables):
            elapsed = time.monotonic() - started
            write_metrics_json(decoding, elapsed, job.output / "metrics.json")
    return decoding


def run_series(
    job: DecodeJob,
    each: Each,
    progress: Progress = silent,
    note: Note = quiet,
) -> Series:
    """As `run_decode`, for a series of windows of length `each`."""
    windows = list(job.source.windows(each, note))
    candidates = _prepared(job, windows[0], note)
    series = decode_over_time(windows, candidates, job.options, progress)
    if job.output:
        write_series(series, job.output)
        write_outputs(series.whole, job.output, progress)
    return series


def _prepared(job: DecodeJob, source: Aggregate, note: Note) -> Candidates:
    """The candidates; the folder is made before the work, to find out whether it can be."""
    candidates = chosen_candidates(source, job.candidates, note)
    if job.output:
        claim_folder(job.output, OUTPUTS, MARK)
        make_folder(job.output)
    return candidates


def chosen_candidates(source: Aggregate, choice: CandidateChoice, note: Note = quiet) -> Candidates:
    """The list that was chosen, or the metric's own values; `note` is told the column taken.

    Raises CandidatesError.
    """
    if choice.map_file:
        return read_map(choice.map_file, source.params)
    taken: str | None = None
    if choice.file:
        listed = Candidates.from_file(choice.file, choice.column)
        taken = column_taken(choice.file, choice.column)
    elif choice.numbers is not None:
        listed = Candidates.numbers(*choice.numbers)
    elif choice.dates is not None:
        listed = Candidates.dates(*choice.dates)
    else:
        listed = metric_candidates(source)
    if taken:
        note(taken)
    return listed
