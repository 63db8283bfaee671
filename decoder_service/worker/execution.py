"""Doing a job: counts, then a workflow of the decoder, then files and what is said of them.

Nothing in the files depends on the clock, the machine or the folder: decoded again by the same
version they have the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from decoder.errors import DecodeError
from decoder.files import read_aggregate_file
from decoder.progress import Note, Progress
from decoder_service.jobs.kinds import JobInputs
from decoder_service.jobs.specs import JobSpec, digest
from decoder_service.worker.task import Keyed, Task, TaskFinished
from rappor_core.aggregate import Aggregate

_ALWAYS = frozenset({"kind", "options", "map", "each"})  # also of kinds that do not take them
_BY_DIGEST = frozenset({"before", "candidates", "weights", "known", "areas"})
Groups = tuple[tuple[Aggregate, ...], ...]
Proceed = Callable[[Keyed], bool]  # whether there is no such result yet


def execute(task: Task, progress: Progress, proceed: Proceed) -> TaskFinished | None:
    """Do a job.

    Args:
        task: what is wanted, and the files it reads.
        progress: called with (stage, done, total).
        proceed: asked, once the counts are there, whether the result is still to be computed.

    Returns:
        What was found, its files in `task.folder / "out"`, the aggregates in "aggregates"; None
        where `proceed` said no.

    Raises:
        RapporError: the counts, the candidates or the decoder refuse.
    """
    spec, kind = task.spec, task.spec.job_kind
    progress("reading counts", 0, 1)
    notes: list[str] = []
    groups = read_counts(spec, task.counts, task.collector, notes.append)
    inputs = JobInputs(
        spec,
        kind,
        groups,
        tuple(notes),
        task.candidates,
        task.weights,
        task.folder / "out",
        task.known,
        task.areas,
    )
    if not all(groups):
        raise DecodeError("the source holds no counts")
    shas = _keep_aggregates(task, groups)
    input_digest = digest(meaning(spec), shas, *_digests(task).values())
    key = digest(input_digest, task.version)
    if not proceed(Keyed(key, input_digest, inputs.metric)):
        return None
    summary = kind.run(inputs, progress)
    manifest = {
        "spec": spec.model_dump(mode="json"),
        "inputs": {"aggregates": shas, **_digests(task)},
        "notes": list(inputs.notes),
    }
    days = [(one.first_day, one.last_day) for one in inputs.all]
    return TaskFinished(
        params_id=inputs.all[0].params_id,
        first_day=min((str(first) for first, _ in days if first), default=None),
        last_day=max((str(last) for _, last in days if last), default=None),
        manifest=manifest,
        summary=summary,
    )


def _digests(task: Task) -> dict[str, str | None]:
    """Those of a job's lists; without further lists as it was before there were any."""
    more = {
        "weights": task.weights_sha256,
        "known": task.known_sha256,
        "areas": task.areas_sha256,
    }
    given = {name: sha for name, sha in more.items() if sha is not None}
    return {"candidates": task.candidates_sha256, **given}


def meaning(spec: JobSpec) -> dict[str, Any]:
    """What of a specification changes a result, beside the bytes of counts and lists."""
    shown: dict[str, Any] = spec.model_dump(
        mode="json", include={*_ALWAYS, *(spec.job_kind.members - _BY_DIGEST)}
    )
    given = spec.candidates.model_dump(mode="json", include={"numbers", "dates"})
    return shown | {"candidates": given}


def read_counts(
    spec: JobSpec, files: Sequence[tuple[Path, ...] | None], collector: str | None, note: Note
) -> Groups:
    """The aggregates of each source of a specification.

    Args:
        spec: what is wanted.
        files: of each source, None where the collector is to be asked.
        collector: its URL.
        note: called with a sentence on what was left out.

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
            found.append(tuple(spec.job_kind.fetch(spec, source.collector, collector, note)))
    return tuple(found)


def _keep_aggregates(task: Task, groups: Groups) -> list[list[str]]:
    """Write the aggregates by their digests, to be stored with the result; the digests."""
    folder = task.folder / "aggregates"
    folder.mkdir()
    shas = []
    for group in groups:
        texts = [one.to_json().encode() for one in group]
        shas.append([sha256(text).hexdigest() for text in texts])
        for sha, text in zip(shas[-1], texts, strict=True):
            (folder / sha).write_bytes(text)
    return shas
