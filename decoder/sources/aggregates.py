"""Sources of the counts of a decoding: aggregate files, a collector, google/rappor's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from decoder.errors import DecodeError
from decoder.files import read_aggregate_file
from decoder.formats.google_rappor import read_counts, read_params
from decoder.progress import Note, quiet
from decoder.sources.collector_client import fetch_aggregate
from decoder.sources.windows import Each, sum_of, windows_of_collector, windows_of_files
from rappor_core.aggregate import Aggregate
from rappor_core.params import HashFamily


class AggregateSource(Protocol):
    """The interface of a source of aggregates: files, a collector, google/rappor's tables."""

    def read(self) -> Aggregate:
        """Read the counts of the whole window. Raises RapporError where there are none."""

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:
        """Yield the aggregates of a series of windows, oldest first; `note` is called with what
        is left out.

        Raises RapporError where there are none.
        """


@dataclass(frozen=True)
class AggregateFiles:
    """Aggregate files as a source; they are added up, or are the windows of a series."""

    paths: tuple[Path, ...]

    def read(self) -> Aggregate:
        """Sum of the files, in any order. Raises CountsError for one that cannot
        be read, and AggregateError where they are not of one metric or share days."""
        if not self.paths:
            raise DecodeError("no aggregate file was given; give one or more")
        return sum_of(map(read_aggregate_file, self.paths))

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:
        """Yield each file as a window. Raises AggregateError for one that does not say its days."""
        del note  # of files nothing is left out
        yield from windows_of_files(list(map(read_aggregate_file, self.paths)), each)


@dataclass(frozen=True)
class CollectorWindow:
    """The closed days of a metric, asked of a collector over HTTP."""

    collector: str
    metric: str
    first: date | None = None
    last: date | None = None

    def read(self) -> Aggregate:
        """The counts of the window. Raises RemoteError."""
        return fetch_aggregate(self.collector, self.metric, first=self.first, last=self.last)

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:
        """Ask the collector for a series of windows, as `windows_of_collector`."""
        return windows_of_collector(self.collector, self.metric, each, self.first, self.last, note)


@dataclass(frozen=True)
class GoogleTables:
    """google/rappor's params.csv and counts.csv as a source, with the hash of the reports behind
    them."""

    params: Path
    counts: Path
    hash_family: HashFamily

    def read(self) -> Aggregate:
        """Read params.csv and counts.csv. Raises CountsError."""
        return read_counts(self.counts, read_params(self.params, self.hash_family))

    def windows(self, each: Each, note: Note = quiet) -> Iterator[Aggregate]:
        """Raise DecodeError: the tables do not say their days."""
        del each, note
        raise DecodeError(f"{self.counts}: counts.csv names no days; give aggregate files")
