"""Discovery jobs, from aggregates to files: shared by the command line and a service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from decoder.discovery.discovery import DiscoverOptions, Discovery, discover
from decoder.files import make_folder
from decoder.output.discovery_files import write_discovery
from decoder.progress import Progress, silent
from decoder.sources.aggregates import AggregateSource


@dataclass(frozen=True)
class DiscoverJob:
    """A request for a discovery. output: the folder of its files."""

    source: AggregateSource
    options: DiscoverOptions = field(default_factory=DiscoverOptions)
    output: Path | None = None


def run_discovery(job: DiscoverJob, progress: Progress = silent) -> Discovery:
    """Read the aggregate, find the strings, and write the files.

    Args:
        job: what is wanted.
        progress: called with (stage, done, total).

    Raises:
        RapporError: what the source, the decoder or the disk refuse.
    """
    aggregate = job.source.read()
    if job.output:
        make_folder(job.output)
    discovery = discover(aggregate, job.options, progress)
    if job.output:
        write_discovery(discovery, job.output, progress)
    return discovery
