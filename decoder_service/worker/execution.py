"""Doing a job: counts, then a workflow of the decoder, then files and what is said of them.

Nothing in the files depends on the clock, the machine or the folder: decoded again by the same
version they have the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from decoder.errors import DecodeError
from decoder.formats.analyst_tables import read_weights
from decoder.progress import Progress
from decoder.sources.windows import Each, sum_of
from decoder.workflows.decoding import CandidateChoice, DecodeJob, run_decode, run_series
from decoder.workflows.discovery import DiscoverJob, run_discovery
from decoder.workflows.kinds import KindAnswer, decoder_kind, run_own
from decoder.workflows.maps import MapJob, run_maps, write_maps
from decoder_service.jobs.specs import CandidateSpec, JobKind, JobSpec, digest
from decoder_service.worker.counts import PlaceCounts, StoredCounts, read_counts
from decoder_service.worker.outputs import (
    discovery_summary,
    write_comparison,
    write_decoding,
    write_kind_series,
    write_maps_json,
    write_series_json,
)
from decoder_service.worker.task import Keyed, Task, TaskFinished
from rappor_core.aggregate import Aggregate

Groups = tuple[tuple[Aggregate, ...], ...]
Proceed = Callable[[Keyed], bool]  # whether there is no such result yet


@dataclass(frozen=True)
class Inputs:
    """What a job computes from: the counts of each source, and notes about them."""

    spec: JobSpec
    groups: Groups
    notes: tuple[str, ...]

    @property
    def all(self) -> tuple[Aggregate, ...]:
        """The aggregates of all sources."""
        return tuple(one for group in self.groups for one in group)

    @property
    def metric(self) -> str:
        """Its declared name: of a location without slot and level."""
        name = self.all[0].metric
        return name.partition("/")[0] if self.spec.kind == JobKind.DENSITY else name

    @property
    def declared_kind(self) -> str:
        """Of the metric, as it was declared; "" where that is not known."""
        return str(self.all[0].definition.get("kind", ""))


def execute(task: Task, progress: Progress, proceed: Proceed) -> TaskFinished | None:
    """Do a job.

    Args:
        task: what is wanted, and the files it reads.
        progress: told of each stage as it moves.
        proceed: asked, once the counts are there, whether the result is still to be computed.

    Returns:
        What was found, its files in `task.folder / "out"`, the aggregates in "aggregates"; None
        where `proceed` said no.

    Raises:
        RapporError: the counts, the candidates or the decoder refuse.
    """
    spec = JobSpec.model_validate_json(task.spec)
    progress("reading counts", 0, 1)
    notes: list[str] = []
    groups = read_counts(spec, task.counts, task.collector, notes.append)
    inputs = Inputs(spec, groups, tuple(notes))
    if not all(groups):
        raise DecodeError("the source holds no counts")
    shas = _keep_aggregates(task, groups)
    question = digest(meaning(spec), shas, *_digests(task).values())
    key = digest(question, task.version)
    if not proceed(Keyed(key, question, inputs.metric)):
        return None
    summary = _RUN.get(spec.kind, _own)(task, inputs, progress)
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
    """Those of a job's lists; without weights as it was before there were any."""
    weights = {} if task.weights_sha256 is None else {"weights": task.weights_sha256}
    return {"candidates": task.candidates_sha256, **weights}


def meaning(spec: JobSpec) -> dict[str, Any]:
    """What of a specification changes a result, beside the bytes of counts and lists."""
    names = {"kind", "options", "map", "each"}
    if spec.kind == JobKind.DISCOVER:  # not of others, whose digests stay as they were
        names.add("find")
    shown: dict[str, Any] = spec.model_dump(mode="json", include=names)
    given = spec.candidates.model_dump(mode="json", include={"numbers", "dates"})
    return shown | {"candidates": given}


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


def _decode(task: Task, inputs: Inputs, progress: Progress) -> dict[str, Any]:
    _refuse_own_kind(inputs)
    decoding = run_decode(_job(task, inputs, StoredCounts(inputs.groups[0])), progress)
    return write_decoding(decoding, task.folder / "out")


def _series(task: Task, inputs: Inputs, progress: Progress) -> dict[str, Any]:
    each = inputs.spec.each
    job = _job(task, inputs, StoredCounts(inputs.groups[0], each))
    kind = decoder_kind(inputs.declared_kind)
    if kind is not None and kind.has_series:
        return write_kind_series(kind, _content(job, each, progress), task.folder / "out")
    _refuse_own_kind(inputs)
    series = run_series(job, each, progress)
    return write_series_json(series, task.folder / "out")


def _compare(task: Task, inputs: Inputs, progress: Progress) -> dict[str, Any]:
    _refuse_own_kind(inputs)
    before, after = map(sum_of, inputs.groups)
    if (before.params_id, before.params) != (after.params_id, after.params):
        raise DecodeError(
            f"the windows have params_id {before.params_id!a} and {after.params_id!a}: their "
            "reports mean different things; decode each by itself"
        )
    job = _job(task, inputs, StoredCounts((before, after)))
    series = run_series(job, inputs.spec.each, progress)
    return write_comparison(series, task.folder / "out")


def _density(task: Task, inputs: Inputs, progress: Progress) -> dict[str, Any]:
    choices = inputs.spec.map
    source = PlaceCounts(inputs.groups[0])
    job = MapJob(inputs.metric, source, choices.slots, choices.options())
    maps = run_maps(job, progress)
    progress("writing files", 0, 1)
    write_maps(maps, task.folder / "out", inputs.notes, every_window=True)
    return write_maps_json(maps, task.folder / "out", inputs.notes)


def _own(task: Task, inputs: Inputs, progress: Progress) -> dict[str, Any]:
    """A metric whose kind has a decoder of its own."""
    kind = decoder_kind(inputs.spec.kind)
    if kind is None or inputs.declared_kind != kind.name:
        raise DecodeError(f"metric {inputs.metric!a} is not of kind {inputs.spec.kind!r}")
    job = replace(_job(task, inputs, StoredCounts(inputs.groups[0])), candidates=CandidateChoice())
    return kind.summary(_content(job, None, progress))


def _content(job: DecodeJob, each: Each | None, progress: Progress) -> dict[str, Any]:
    """What a kind's own decoder found, as in results.json."""
    answer = run_own(job, each, progress)
    if not isinstance(answer, KindAnswer):
        raise DecodeError("the metric has no decoder of its own")
    return answer.content


def _discover(task: Task, inputs: Inputs, progress: Progress) -> dict[str, Any]:
    if inputs.declared_kind != JobKind.DISCOVER:
        raise DecodeError(f"metric {inputs.metric!a} is not of kind 'discover'")
    options = inputs.spec.find.options()
    source = StoredCounts(inputs.groups[0])
    found = run_discovery(DiscoverJob(source, options, task.folder / "out"), progress)
    return discovery_summary(found)


def _refuse_own_kind(inputs: Inputs) -> None:
    """Raises DecodeError for a metric that another kind of job decodes."""
    kind = inputs.declared_kind
    if kind == JobKind.DISCOVER or decoder_kind(kind) is not None:
        raise DecodeError(
            f"metric {inputs.metric!a} is of kind {kind!r}: start a job of kind {kind}"
        )


def _job(task: Task, inputs: Inputs, source: StoredCounts) -> DecodeJob:
    choice, options = _choice(task, inputs.spec.candidates), inputs.spec.options.options()
    if task.weights is not None:
        options = replace(options, weights=read_weights(task.weights))
    return DecodeJob(source, choice, options, task.folder / "out")


def _choice(task: Task, given: CandidateSpec) -> CandidateChoice:
    if task.candidates is not None:
        return CandidateChoice(file=task.candidates)
    return CandidateChoice(numbers=given.numbers, dates=given.dates)


_RUN: dict[str, Callable[[Task, Inputs, Progress], dict[str, Any]]] = {
    JobKind.DECODE: _decode,
    JobKind.SERIES: _series,
    JobKind.COMPARE: _compare,
    JobKind.DENSITY: _density,
    JobKind.DISCOVER: _discover,
}
