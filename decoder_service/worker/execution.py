"""The execution of a job in a separate process: limits, counts, decoding and result files.

The files do not depend on the clock, the machine or the folder: the same version writes the same
bytes again."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from decoder.candidates.files import read_weights
from decoder.errors import DecodeError
from decoder.files import read_aggregate_file
from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import Question
from decoder.kinds.run import decode_counts, kind_of, write_result
from decoder.options import CandidateChoice, FlowOptions, MapOptions
from decoder.progress import Note, Progress
from decoder.sources.aggregates import window_of
from decoder.sources.collector_client import KEY_VARIABLE
from decoder.sources.windows import windows_of_files
from decoder_service.jobs.specs import JobSpec, digest
from decoder_service.worker.process_limits import die_with_parent, end_with_pipe, limit_resources
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_server.errors import RequestError

_TELL_SECONDS = 0.2  # The interval between two messages of one stage
_OF_KINDS = frozenset({"candidates", "weights", "map", "areas", "crowd", "flows", "known"})


@dataclass(frozen=True)
class Task:
    """The message that starts a job: its specification and the files that it reads.

    Attributes:
        counts: The aggregate files of each source of the specification, or None for the collector.
        lists: The file and SHA-256 of each list, by the member of the specification that names it.
        folder: The folder for output; the result is in its subfolder `out`.
        collector: The URL of the collector.
        memory: The memory limit, in bytes.
        file_size: The size limit of a file, in bytes.
    """

    spec: JobSpec
    counts: tuple[tuple[Path, ...] | None, ...]
    lists: Mapping[str, tuple[Path, str]]
    folder: Path
    version: str
    collector: str | None = None
    collector_key: str | None = None
    memory: int = 2 << 30
    file_size: int = 512 << 20


@dataclass(frozen=True)
class Keyed:
    """The message that a job has read its counts, with the key that identifies its result.

    The process then waits for `True` to continue."""

    key: str
    input_digest: str
    metric: str


@dataclass(frozen=True)
class TaskFinished:
    """The message that the result is in the folder; `kind` is the metric's kind."""

    kind: str
    params_id: str
    first_day: str | None
    last_day: str | None
    manifest: dict[str, Any]
    summary: dict[str, Any] = field(default_factory=dict)


JobProgress = tuple[str, int, int]  # The message about progress: stage, done, total
Groups = tuple[tuple[Aggregate, ...], ...]
Proceed = Callable[[Keyed], bool]  # Returns whether the result must still be computed


def execute(task: Task, progress: Progress, proceed: Proceed) -> TaskFinished | None:
    """Run a job.

    Args:
        task: The specification and the files that it reads.
        progress: A callback for (stage, done, total).
        proceed: A callback, called once the counts are read, that returns whether the result must
            still be computed.

    Returns:
        The description of the result, whose files are in `task.folder / "out"` and whose aggregates
            are in "aggregates"; None if `proceed` returned False.

    Raises:
        RapporError: The counts, the candidates or the options are invalid.
    """
    spec, notes = task.spec, list[str]()
    progress("reading counts", 0, 1)
    groups = _read_counts(task, notes.append)
    if not all(groups):
        raise DecodeError("the source contains no counts")
    first, kind = groups[0][0], kind_of(groups[0])
    name = str(first.definition.get("kind", "string"))
    _check_members(spec, kind, name)
    metric = first.metric.partition("/")[0] if "map" in kind.members else first.metric
    shas = _keep_aggregates(task, groups)
    lists = {"candidates": None, **{name: sha for name, (_, sha) in task.lists.items()}}
    input_digest = digest(_meaning(spec, kind), shas, *lists.values())
    if not proceed(Keyed(digest(input_digest, task.version), input_digest, metric)):
        return None
    result = decode_counts(spec.operation, groups, _question(task), progress, notes.append)
    write_result(result, kind, spec.operation, task.folder / "out", progress)
    manifest = {
        "spec": spec.model_dump(mode="json"),
        "inputs": {"aggregates": shas, **lists},
        "notes": notes,
    }
    days = [(item.first_day, item.last_day) for group in groups for item in group]
    return TaskFinished(
        kind=name,
        params_id=first.params_id,
        first_day=min((str(first) for first, _ in days if first), default=None),
        last_day=max((str(last) for _, last in days if last), default=None),
        manifest=manifest,
        summary=result.summary,
    )


def _check_members(spec: JobSpec, kind: KindDecoder, name: str) -> None:
    if spec.operation not in kind.operations:
        raise RequestError(
            f"operation: a metric of kind {name} has no {spec.operation}; start a job with "
            f"operation {' or '.join(kind.operations)}"
        )
    for member in sorted(_OF_KINDS - kind.members):
        if getattr(spec, member) != JobSpec.model_fields[member].default:
            raise RequestError(f"{member}: does not apply to a metric of kind {name}; omit it")


def _question(task: Task) -> Question:
    spec, options, choice = task.spec, task.spec.options.options(), task.spec.candidates
    files = {name: path for name, (path, _) in task.lists.items()}
    if "weights" in files:
        options = replace(options, weights=read_weights(files["weights"]))
    return Question(
        CandidateChoice(files.get("candidates"), numbers=choice.numbers, dates=choice.dates),
        options,
        MapOptions(spec.map.method, spec.map.slots, areas=files.get("areas"), every_window=True),
        spec.crowd,
        FlowOptions(spec.flows.min_km, spec.flows.top, known=files.get("known")),
    )


def _meaning(spec: JobSpec, kind: KindDecoder) -> dict[str, Any]:
    """Return the members of a specification that affect a result, except counts and lists."""
    members = kind.members & {"map", "crowd", "flows"}
    content: dict[str, Any] = spec.model_dump(
        mode="json", include={"operation", "options", "each", *members}
    )
    choice = spec.candidates.model_dump(mode="json", include={"numbers", "dates"})
    return content | {"candidates": choice}


def _read_counts(task: Task, note: Note) -> Groups:
    """Return one group of aggregates per source; in a series, with one aggregate per window."""
    spec, collector = task.spec, task.collector
    groups: list[list[Aggregate]] = []
    is_series = spec.operation == "series"
    for source, paths in zip(spec.sources, task.counts, strict=True):
        window = source.collector
        if paths is not None:
            counts = list(map(read_aggregate_file, paths))
            groups.append(windows_of_files(counts, spec.each) if is_series else counts)
        elif collector is None or window is None:
            raise DecodeError("no collector is set up here; an operator sets `collector`")
        else:  # For a location, all slots and levels
            days = window_of(collector, window.metric, window.first, window.last, spec.map.split)
            groups.append(days.windows(spec.each, note) if is_series else days.read(note))
    return tuple(map(tuple, groups))


def _keep_aggregates(task: Task, groups: Groups) -> list[list[str]]:
    """Write each aggregate to a file named by its digest; return the digests by group."""
    folder = task.folder / "aggregates"
    folder.mkdir()
    shas = []
    for group in groups:
        texts = [item.to_json().encode() for item in group]
        shas.append([sha256(text).hexdigest() for text in texts])
        for sha, text in zip(shas[-1], texts, strict=True):
            (folder / sha).write_bytes(text)
    return shas


def run(task: Task, pipe: Connection, life: Connection) -> None:
    """Run a job and send its outcome; the main function of a job's process.

    `pipe` carries the messages of this module, and the answer to Keyed. The worker holds the other
    end of `life`; this process ends when that end is closed."""
    die_with_parent()
    end_with_pipe(life)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # Sent to all processes
        signal.signal(number, signal.SIG_IGN)  # The worker decides
    os.environ.pop(KEY_VARIABLE, None)
    if task.collector_key:
        os.environ[KEY_VARIABLE] = task.collector_key
    limit_resources(task.memory, task.file_size)
    with suppress(BrokenPipeError):  # The worker is gone, and this process ends, too
        pipe.send(_outcome(task, pipe))


def _outcome(task: Task, pipe: Connection) -> TaskFinished | str | None:
    """Run a job; return what `execute` returns, or the reason as text if it fails."""
    sent_stage, at = "", 0.0  # The last stage that was sent, and the time

    def proceed(keyed: Keyed) -> bool:
        pipe.send(keyed)
        return bool(pipe.recv())

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal sent_stage, at
        now = time.monotonic()
        if stage != sent_stage or done >= total or now - at >= _TELL_SECONDS:
            sent_stage, at = stage, now
            pipe.send((stage, done, total))

    try:
        return execute(task, progress, proceed)
    except MemoryError:
        return (
            f"it needed more memory than the {task.memory / (1 << 30):.2g} GiB that a job may "
            "take; use a shorter list, coarser cells or full_fit = false"
        )
    except RapporError as error:
        # Remove the job's folder from file paths.
        return str(error).replace(f"{task.folder}{os.sep}", "")
    except OSError as error:
        return f"a file could not be read or written: {error.strerror or error}"
    except Exception as error:
        return f"the decoder failed ({type(error).__name__}); this is a defect"
