"""Messages between a worker and the process of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decoder_service.jobs.specs import JobSpec


@dataclass(frozen=True)
class Task:
    """The message that starts a job: its specification and the files that it reads.

    counts: of each source of the specification the aggregate files, None where the
    collector is to be asked.  candidates: file of the values, one a line, if a list was named.
    candidates_sha256: of that list.  weights, weights_sha256: the same of weights, a CSV; known,
    known_sha256: of known flows; areas, areas_sha256: of areas, GeoJSON.
    folder: for what is written; `out` in it for the result.  collector, collector_key: where to
    ask.  memory, file_size: bounds in bytes.
    """

    spec: JobSpec
    counts: tuple[tuple[Path, ...] | None, ...]
    candidates: Path | None
    candidates_sha256: str | None
    folder: Path
    version: str
    weights: Path | None = None
    weights_sha256: str | None = None
    known: Path | None = None
    known_sha256: str | None = None
    areas: Path | None = None
    areas_sha256: str | None = None
    collector: str | None = None
    collector_key: str | None = None
    memory: int = 2 << 30
    file_size: int = 512 << 20


@dataclass(frozen=True)
class JobProgress:
    """The message about progress."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class Keyed:
    """The message that the counts are read, with the key of the result. The process waits for
    `True` to go on."""

    key: str
    input_digest: str
    metric: str


@dataclass(frozen=True)
class TaskFinished:
    """The result is in the folder. kind: of the metric."""

    kind: str
    params_id: str
    first_day: str | None
    last_day: str | None
    manifest: dict[str, Any]
    summary: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """The message that the job cannot be done, with the reason in words."""

    reason: str
