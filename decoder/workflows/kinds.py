"""Kinds of metric that have a decoder of their own: looked up by name, loaded at first use.

A new one is a subclass of `DecoderKind`, its instance `KIND`, and a line in `_HOMES` (its module).
The command line, the service with its pages, and schedules ask the register and know no kind by
name. Without an entry, values are candidates and `decoder.workflows.decoding.run_decode` decodes
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from decoder.errors import CandidatesError, DecodeError
from decoder.files import claim_folder, make_folder
from decoder.output.decoding_files import MARK, OUTPUTS
from decoder.output.tables import TableQuery
from decoder.progress import (
    Note,
    Progress,
    quiet,
    silent,
)
from decoder.sources.windows import Each, sum_of
from decoder.workflows.decoding import DecodeJob
from rappor_core.aggregate import Aggregate

_HOMES = {
    "number": "decoder.workflows.numbers",
    "pair": "decoder.workflows.pairs",
    "flow": "decoder.workflows.flows",
}
_LOADED: dict[str, DecoderKind] = {}


@dataclass(frozen=True)
class AnswerTable:
    """A table to print: cells are text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class KindAnswer:
    """The result of a kind's own decoder. content: for JSON. files: those written."""

    content: dict[str, Any]
    tables: tuple[AnswerTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=())


@dataclass(frozen=True)
class KindSeries:
    """A series of windows in the form that a series of any metric has; rows are for JSON.

    windows: first_day, last_day and reports of each, oldest first.  rows: one for each window and
    quantity, by `SERIES_COLUMNS`; a quantity is named in `string`.  changes: of two windows, with
    `string`, difference, std_error, low, high, p_value and p_adjusted.  means: of each window that
    has one, with its days, estimate, low, high, geometric and clipped_to.  unit: of the means.
    """

    windows: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    means: list[dict[str, Any]] = field(default_factory=list)
    unit: str = ""


SERIES_COLUMNS = ("first_day", "last_day", "reports", "string", "proportion", "std_error", "low",
                  "high")  # fmt: skip


class DecoderKind:
    """The decoder and views of one kind of metric whose values are no candidates.

    name: as in `metrics.toml`; jobs and results of it are called so, too.
    title: of a result.  purpose: what a job finds out, in words.
    table: the CSV file of its main table, which in `KindAnswer.content` is the first list of rows.
    template: in `decoder/output/templates`, what the page of a result holds; `view` fills it.
    has_series: whether it decodes several windows as a series.
    published: files of a result that a release can be made of.
    members: of the specification of a job of the service, besides `options`, that it takes.
    command: of `rappor`, which makes the same files; one of its own takes the metric as argument.
    """

    name: str
    title: str
    purpose: str
    table: str
    template: str
    has_series = False
    published: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()
    command = "decode"

    def run(self, job: DecodeJob, counts: Aggregate, progress: Progress) -> KindAnswer:
        """Decode a window.

        If the job names a folder, `table` and the content as `results.json` are written there.
        Raises DecodeError for what cannot be decoded, CandidatesError for candidates where there
        are none to give, OutputError for the folder.
        """
        raise NotImplementedError(f"kind {self.name!r} does not decode")

    def run_series(
        self, job: DecodeJob, windows: tuple[Aggregate, ...], progress: Progress
    ) -> KindAnswer:
        """Decode windows as a series, as `run` does one; only where `has_series`."""
        raise NotImplementedError(f"kind {self.name!r} has no series")

    def summary(self, content: dict[str, Any]) -> dict[str, Any]:
        """A short form of `KindAnswer.content` for lists of results, with num_reports and
        warnings."""
        return {"num_reports": content["num_reports"], "warnings": content["warnings"]}

    def in_list(self, summary: dict[str, Any]) -> str:  # noqa: ARG002
        """A few words about a result, for lists of results."""
        return self.title

    def view(self, content: dict[str, Any], query: TableQuery) -> dict[str, Any]:
        """The variables of `template`. content: results.json. query: of its tables."""
        raise NotImplementedError(f"kind {self.name!r} has no page")

    def series(self, content: dict[str, Any]) -> KindSeries:
        """The series in the content of several windows; only where `has_series`."""
        raise NotImplementedError(f"kind {self.name!r} has no series")

    def series_in_list(self, summary: dict[str, Any]) -> str:
        """A few words about a series, for lists of results. summary: with its `windows`."""
        return f"{len(summary['windows'])} windows"


def decoder_kind_names() -> tuple[str, ...]:
    """The names of all kinds that have a decoder of their own."""
    return tuple(_HOMES)


def decoder_kind(name: object) -> DecoderKind | None:
    """The kind of a name, loaded at its first use; None where it has no decoder of its own."""
    if not isinstance(name, str) or name not in decoder_kind_names():
        return None
    if name not in _LOADED:
        _LOADED[name] = import_module(_HOMES[name]).KIND
    return _LOADED[name]


@dataclass(frozen=True)
class FetchedCounts:
    """A source that was read already."""

    aggregates: tuple[Aggregate, ...]

    def read(self) -> Aggregate:
        """The sum of all windows that were read."""
        return sum_of(self.aggregates)

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:  # noqa: ARG002
        """The windows that were read."""
        return iter(self.aggregates)


def run_own(
    job: DecodeJob,
    each: Each | None = None,
    progress: Progress = silent,
    note: Note = quiet,
) -> KindAnswer | DecodeJob:
    """Decode with the kind's own decoder, if it has one.

    Args:
        job: what is wanted.
        each: length of the windows of a series, or None.
        progress: called with (stage, done, total).
        note: called with a sentence on what was left out.

    Returns:
        The answer; or the job, with its source read, for `run_decode` or `run_series`.

    Raises:
        RapporError: what the source, the decoder or the disk refuse.
    """
    source = job.source
    aggregates = (source.read(),) if each is None else tuple(source.windows(each, note))
    kind = decoder_kind(aggregates[0].definition.get("kind"))
    if kind is None:
        return replace(job, source=FetchedCounts(aggregates))
    if job.options.weights is not None:
        raise CandidatesError(
            f"a metric of kind {kind.name!r} has no candidates to give weights to"
        )
    if each is not None and not kind.has_series:
        raise DecodeError(
            f"a metric of kind {kind.name!r} is decoded over one window: leave --each out"
        )
    if job.output:
        claim_folder(job.output, OUTPUTS, MARK)
        make_folder(job.output)
    if each is None:
        return kind.run(job, aggregates[0], progress)
    return kind.run_series(job, aggregates, progress)
