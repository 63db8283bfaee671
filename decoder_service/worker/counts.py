"""The counts of a job: read from files or asked of a collector, and known by their digests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoder.errors import DecodeError
from decoder.files import read_aggregate_file
from decoder.progress import Note, quiet
from decoder.sources.aggregates import CollectorWindow
from decoder.sources.density_windows import LocationWindows
from decoder.sources.windows import Each, sum_of, windows_of_files
from decoder_service.jobs.specs import JobKind, JobSpec, WindowSpec
from rappor_core.aggregate import Aggregate


@dataclass(frozen=True)
class StoredCounts:
    """Aggregates that are there already: a source for every workflow (`decoder.sources`).

    each: windows are put together by day or week; None leaves them as they are.
    """

    aggregates: tuple[Aggregate, ...]
    each: Each | None = None

    def read(self, metric: str = "", note: Note = quiet) -> Aggregate:
        """Their sum. Raises AggregateError if they do not fit."""
        del metric, note
        return sum_of(self.aggregates)

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:
        """Each a window, oldest first."""
        del each, note
        yield from windows_of_files(self.aggregates, self.each) if self.each else self.aggregates


@dataclass(frozen=True)
class PlaceCounts:
    """The same for maps."""

    aggregates: tuple[Aggregate, ...]

    def read(self, metric: str, note: Note = quiet) -> Iterator[Aggregate]:
        """All of them."""
        del metric, note
        return iter(self.aggregates)


def read_counts(
    spec: JobSpec, files: Sequence[tuple[Path, ...] | None], collector: str | None, note: Note
) -> tuple[tuple[Aggregate, ...], ...]:
    """The aggregates of each source of a specification.

    Args:
        spec: what is wanted.
        files: of each source, None where the collector is to be asked.
        collector: its URL.
        note: told what was left out.

    Returns:
        For each source its aggregates, at least one.

    Raises:
        RapporError: what a file or the collector refuse.
    """
    found = []
    for source, paths in zip(spec.sources, files, strict=True):
        if paths is not None:
            found.append(tuple(map(read_aggregate_file, paths)))
        elif collector is None or source.collector is None:
            raise DecodeError("no collector is set up here; an operator sets `collector`")
        else:
            found.append(tuple(_ask(spec, source.collector, collector, note)))
    return tuple(found)


def _ask(spec: JobSpec, window: WindowSpec, collector: str, note: Note) -> Iterator[Aggregate]:
    days = (window.first, window.last)
    if spec.kind == JobKind.DENSITY:
        return LocationWindows(collector, days, spec.map.split).read(window.metric, note)
    source = CollectorWindow(collector, window.metric, *days)
    if spec.kind == JobKind.SERIES:
        return source.windows(spec.each, note)
    return iter([source.read()])
