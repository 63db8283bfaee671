"""Discovery jobs, from aggregates to files: shared by the command line and a service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from decoder.discovery.discovery import DiscoverOptions, Discovery, discover
from decoder.files import make_folder
from decoder.output.discovery_files import write_discovery
from decoder.progress import Cancelled, Progress, check_cancelled, never, silent, watched
from decoder.sources.aggregates import AggregateSource


@dataclass(frozen=True)
class DiscoverJob:
    """A request for a discovery. output: the folder of its files."""

    source: AggregateSource
    options: DiscoverOptions = field(default_factory=DiscoverOptions)
    output: Path | None = None


def run_discovery(
    job: DiscoverJob, progress: Progress = silent, cancelled: Cancelled = never
) -> Discovery:
    """Read the aggregate, find the strings, and write the files.

    Args:
        job: what is wanted.
        progress: told of each stage as it moves.
        cancelled: asked between stages whether to stop.

    Raises:
        JobCancelledError: `cancelled` said so.
        RapporError: what the source, the decoder or the disk refuse.
    """
    progress = watched(progress, cancelled)
    check_cancelled(cancelled, "the counts were read")
    aggregate = job.source.read()
    if job.output:
        make_folder(job.output)
    check_cancelled(cancelled, "the strings were sought")
    discovery = discover(aggregate, job.options, progress)
    if job.output:
        check_cancelled(cancelled, "the files were written")
        write_discovery(discovery, job.output, progress)
    return discovery
