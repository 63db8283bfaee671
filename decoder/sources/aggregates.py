"""Sources of counts: aggregate files, a collector, google/rappor's tables."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol, cast

from decoder.errors import DecodeError
from decoder.files import read_aggregate_file
from decoder.formats.google_rappor import read_counts, read_params
from decoder.progress import Note, quiet
from decoder.sources.collector_client import ask_json, fetch_aggregate
from decoder.sources.windows import (
    Each,
    SplitName,
    fetch_parts,
    windows_of_collector,
    windows_of_files,
)
from rappor_core.aggregate import Aggregate
from rappor_core.params import HashFamily


class AggregateSource(Protocol):
    """A source of aggregates; `note` is called with a sentence about skipped data."""

    def read(self, note: Note = quiet) -> list[Aggregate]:
        """Read the aggregates of a window. Raises RapporError if it is missing."""

    def windows(self, each: Each, note: Note = quiet) -> list[Aggregate]:
        """Read a series of windows, oldest first; otherwise like `read`."""


@dataclass(frozen=True)
class AggregateFiles:
    """Aggregate files, which are summed or are the windows of a series."""

    paths: tuple[Path, ...]

    def read(self, note: Note = quiet) -> list[Aggregate]:
        """Return the aggregates in file order. Raises CountsError if one is unreadable."""
        del note  # no file is skipped
        if not self.paths:
            raise DecodeError("no aggregate file was given; give one or more")
        return list(map(read_aggregate_file, self.paths))

    def windows(self, each: Each, note: Note = quiet) -> list[Aggregate]:
        """Return each file as a window. Raises AggregateError if a file has no days."""
        return windows_of_files(self.read(note), each)


@dataclass(frozen=True)
class CollectorWindow:
    """The closed days of a metric, requested from a collector over HTTP."""

    collector: str
    metric: str
    first: date | None = None  # None for the first day that is served
    last: date | None = None
    split: SplitName | None = None  # How to divide the days of a location

    def read(self, note: Note = quiet) -> list[Aggregate]:
        """Read the counts. Raises RemoteError on failure, or DecodeError if nothing is served."""

        def fetch(name: str, first: date | None, last: date | None) -> Aggregate:
            return fetch_aggregate(self.collector, name, first=first, last=last)

        days = self.first, self.last
        if self.split is None:
            return [fetch(self.metric, *days)]
        listed = ask_json(self.collector, "/v1/metrics", "metrics")["metrics"]
        return list(fetch_parts(self.metric, listed, fetch, days, self.split, note))

    def windows(self, each: Each, note: Note = quiet) -> list[Aggregate]:
        """Request a series of windows from the collector; see `windows_of_collector`."""
        days = self.first, self.last
        return list(windows_of_collector(self.collector, self.metric, each, *days, note))


def window_of(
    collector: str,
    metric: str,
    first: date | None,
    last: date | None,
    split: SplitName = SplitName.WHOLE,
) -> CollectorWindow:
    """Return the days of a metric, with all of its slots and levels. Raises RemoteError."""
    listed = ask_json(collector, "/v1/metrics", "metrics")["metrics"]
    in_parts = any(str(row["name"]).startswith(f"{metric}/") for row in listed)
    return CollectorWindow(collector, metric, first, last, split if in_parts else None)


def sources_by_metric(
    files: Iterable[Path], collector: str, first: date | None = None, last: date | None = None
) -> dict[str, AggregateSource]:
    """Return a source for each metric that the files contain or the collector serves.

    Raises:
        CountsError: A file cannot be read.
        DecodeError: Days are given for files, or a metric's name is unfit for a folder.
        RemoteError: The collector does not answer.
    """
    sources, groups = dict[str, AggregateSource](), defaultdict[str, list[Path]](list)
    for path in files:
        metric = read_aggregate_file(path).metric.partition("/")[0]
        if first or last or not metric or Path(metric).name != metric:
            raise DecodeError(f"{path}: metric {metric!a}: a file has its own days, without --from "
                              "and --to, and the name must be fit for a folder")  # fmt: skip
        groups[metric].append(path)
        sources[metric] = AggregateFiles(tuple(groups[metric]))
    listed = ask_json(collector, "/v1/metrics", "metrics")["metrics"] if collector else ()
    for name in sorted(str(row["name"]) for row in listed if row["served"]):
        metric, _, part = name.partition("/")
        split = SplitName.WHOLE if part else None
        sources[metric] = CollectorWindow(collector, metric, first, last, split)
    return sources


@dataclass(frozen=True)
class GoogleTables:
    """google/rappor's params.csv and counts.csv, with the hash of the reports behind them."""

    params: Path
    counts: Path
    hash_family: str

    def read(self, note: Note = quiet) -> list[Aggregate]:
        """Read params.csv and counts.csv. Raises CountsError if they are invalid."""
        del note
        return [
            read_counts(self.counts, read_params(self.params, cast(HashFamily, self.hash_family)))
        ]

    def windows(self, each: Each, note: Note = quiet) -> list[Aggregate]:
        """Raise DecodeError, because the tables do not contain days."""
        del each, note
        raise DecodeError(f"{self.counts}: counts.csv names no days; give aggregate files")


def check_metric(counts: Sequence[Aggregate], metric: str) -> None:
    """Raise DecodeError if counts are for a different metric (named without slot and level)."""
    for count in counts:
        name = count.metric.partition("/")[0]
        if metric not in (name, count.metric):
            raise DecodeError(
                f"the counts are of metric {name!r}, not of {metric!r}: name that one, or give "
                "its aggregates"
            )
