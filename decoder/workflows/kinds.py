"""Kinds of metric that have a decoder of their own: looked up by name, loaded at first use.

A module named in `_HOMES` has `run(job, windows, progress)` that returns a `KindAnswer`: `windows`
are None for one window, or the aggregates of a series. Without an entry, values are candidates and
`decoder.workflows.decoding.run_decode` decodes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from decoder.errors import CandidatesError
from decoder.files import claim_folder, make_folder
from decoder.output.decoding_files import MARK, OUTPUTS
from decoder.progress import (
    Cancelled,
    Note,
    Progress,
    check_cancelled,
    never,
    quiet,
    silent,
    watched,
)
from decoder.sources.windows import Each, sum_of
from decoder.workflows.decoding import DecodeJob, read_windows
from rappor_core.aggregate import Aggregate

_HOMES = {"number": "decoder.workflows.numbers", "pair": "decoder.workflows.pairs"}


@dataclass(frozen=True)
class AnswerTable:
    """A table to print: cells are text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class KindAnswer:
    """What a kind's own decoder found. content: for JSON.  files: those written."""

    content: dict[str, Any]
    tables: tuple[AnswerTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=())


@dataclass(frozen=True)
class FetchedCounts:
    """A source that was read already."""

    aggregates: tuple[Aggregate, ...]

    def read(self) -> Aggregate:
        """All of it, as one."""
        return sum_of(self.aggregates)

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:  # noqa: ARG002
        """The windows, as they were read."""
        return iter(self.aggregates)


def run_own(
    job: DecodeJob,
    each: Each | None = None,
    progress: Progress = silent,
    note: Note = quiet,
    cancelled: Cancelled = never,
) -> KindAnswer | DecodeJob:
    """Decode with the kind's own decoder, if it has one.

    Args:
        job: what is wanted.
        each: length of the windows of a series, or None.
        progress: told of each stage as it moves.
        note: told what was left out.
        cancelled: asked between stages whether to stop.

    Returns:
        The answer; or the job, with its source read, for `run_decode` or `run_series`.

    Raises:
        CancelledError: `cancelled` said so.
        RapporError: what the source, the decoder or the disk refuse.
    """
    check_cancelled(cancelled, "the counts were read")
    aggregates = (
        (job.source.read(),) if each is None else tuple(read_windows(job, each, note, cancelled))
    )
    home = _HOMES.get(str(aggregates[0].definition.get("kind")))
    if home is None:
        return replace(job, source=FetchedCounts(aggregates))
    if job.options.weights is not None:
        kind = aggregates[0].definition["kind"]
        raise CandidatesError(f"a metric of kind {kind!r} has no candidates to give weights to")
    if job.output:
        claim_folder(job.output, OUTPUTS, MARK)
        make_folder(job.output)
    answer: KindAnswer = import_module(home).run(
        job, aggregates[0] if each is None else aggregates, watched(progress, cancelled)
    )
    return answer
