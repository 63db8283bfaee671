"""Kinds of jobs: what a job takes, how it is checked and done, and what its page shows.

A new one is a module in `decoder_service/job_kinds/` with a subclass of `JobKind` and its instance
`KIND`, and a line in `_HOMES`; its template stands in `decoder/output/templates/`. A kind of metric
that has a decoder of its own (`decoder.workflows.kinds`) is a kind of job, too, and needs neither.
Checks, the worker, forms and pages ask the register, and know no kind by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder.errors import DecodeError
from decoder.formats.analyst_tables import read_weights
from decoder.progress import Note, Progress
from decoder.sources.aggregates import AggregateSource, CollectorWindow
from decoder.workflows.decoding import CandidateChoice, DecodeJob
from decoder.workflows.kinds import DecoderKind, FetchedCounts, decoder_kind, decoder_kind_names
from decoder_service.jobs.known_counts import KnownCounts, sum_of_known
from rappor_core.aggregate import Aggregate

if TYPE_CHECKING:
    from decoder.output.tables import TableQuery
    from decoder_service.jobs.specs import JobSpec, WindowSpec

_HOMES = {
    "decode": "decoder_service.job_kinds.decode",
    "series": "decoder_service.job_kinds.series",
    "density": "decoder_service.job_kinds.density",
    "compare": "decoder_service.job_kinds.compare",
    "discover": "decoder_service.job_kinds.discover",
}
_OF_METRICS = "decoder_service.job_kinds.of_metric"  # for kinds of metric with their own decoder
_LOADED: dict[str, JobKind] = {}


@dataclass(frozen=True)
class JobInputs:
    """What a job computes from.

    groups: the aggregates of each source of the specification, the earlier window of a comparison
    first.  notes: what was left out of them.  candidates, weights: files, None without them.
    folder: for the files of the result.  known, areas: a file of known flows, of
    areas, None without.
    """

    spec: JobSpec
    kind: JobKind
    groups: tuple[tuple[Aggregate, ...], ...]
    notes: tuple[str, ...]
    candidates: Path | None
    weights: Path | None
    folder: Path
    known: Path | None = None
    areas: Path | None = None

    @property
    def all(self) -> tuple[Aggregate, ...]:
        """The aggregates of all sources."""
        return tuple(one for group in self.groups for one in group)

    @property
    def metric(self) -> str:
        """Its declared name: of a location without slot and level."""
        return self.kind.metric_of(self.all[0].metric)

    @property
    def declared_kind(self) -> str:
        """Of the metric, as it was declared; "" where that is not known."""
        return str(self.all[0].definition.get("kind", ""))

    def decoding(self, source: AggregateSource | None = None) -> DecodeJob:
        """The decoding of a source, by default of the first, as `decoder.workflows` takes it."""
        options, given = self.spec.options.options(), self.spec.candidates
        choice = CandidateChoice(self.candidates, numbers=given.numbers, dates=given.dates)
        if self.weights is not None:
            options = replace(options, weights=read_weights(self.weights))
        source = source or FetchedCounts(self.groups[0])
        display = self.spec.flows.display()
        return DecodeJob(source, choice, options, self.folder, known=self.known, display=display)


@dataclass(frozen=True)
class StoredResult:
    """A result as the page of its kind reads it.

    own: whether the reader may see the whole list of candidates.  files: names of those stored.
    read: the bytes of a file by its name.
    """

    id: str
    own: bool
    files: frozenset[str]
    read: Callable[[str], bytes]


class JobKind:
    """A kind of job, with its results.

    name: of jobs and results.  title: of a result.  purpose: what a job finds out, in words.
    template: what the page of a result holds, in `decoder/output/templates`; `view` fills it.
    members: of a specification, besides kind and source, that it takes.
    tables: the files of the main table, one in each format that it has.
    metric_kind: the kind of metric that only jobs of this kind decode; None: none of its own.
    metric_is_argument: whether its command takes the metric so, and not by --metric.
    of_places: whether its counts are of all slots and levels of a location.
    published: files of a result that a release can be made of.
    unshared: why a result is not shown to viewers; "" where it may be.
    compared: whether two results of it can be compared by another job.
    has_map_changes: whether one result can hold changes between the windows of its maps.
    """

    name: str
    title: str
    purpose: str
    template: str
    members: frozenset[str] = frozenset()
    tables: tuple[str, ...] = ("results.json",)
    metric_kind: str | None = None
    metric_is_argument = False
    of_places = False
    published: tuple[str, ...] = ()
    unshared = ""
    compared = False
    has_map_changes = False

    @property
    def of_values(self) -> bool:
        """Whether a job looks for candidates."""
        return "candidates" in self.members

    def metric_of(self, name: str) -> str:
        """The metric that is decoded with counts of a name: of places, that with all its parts."""
        return name.partition("/")[0] if self.of_places else name

    def decodes(self, metric_kind: str | None) -> bool:
        """Whether it decodes metrics of a kind, None where that is not known."""
        return metric_kind is not None and metric_kind == self.metric_kind

    @property
    def decoded(self) -> str:
        """A clause on which metrics a job of this kind decodes."""
        return f"a job of kind {self.name} decodes no other"

    def check(self, spec: JobSpec, counts: Sequence[Sequence[KnownCounts] | None]) -> None:
        """Check that the aggregates of each source can be summed, before they are read.

        counts: of each source what is known of its aggregates; None where nothing is. Raises
        RequestError where two do not go together.
        """
        del spec
        for known in counts:
            if known:
                sum_of_known(known, "leave one of them out")

    def in_parts(self, spec: JobSpec) -> bool:
        """Whether a part of its window that is not served yet is left out, and no error."""
        del spec
        return False

    def fetch(
        self, spec: JobSpec, window: WindowSpec, collector: str, note: Note
    ) -> Iterable[Aggregate]:
        """The counts of a window, asked of a collector by its URL; `note`: what was left out."""
        del spec, note
        return [CollectorWindow(collector, window.metric, window.first, window.last).read()]

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Do a job: write its files; the summary that is kept with the result.

        Raises RapporError for what the counts, the candidates or the decoder refuse.
        """
        raise NotImplementedError(f"jobs of kind {self.name!r} are not done")

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """A few words on a result, for a list of results."""
        del summary
        return self.title

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """The variables of `template`."""
        raise NotImplementedError(f"results of kind {self.name!r} have no page")

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """The command line that makes a result again.

        sources: the options that name the counts of each source of the specification.
        """
        raise NotImplementedError(f"no command does what jobs of kind {self.name!r} do")

    def comparing(
        self, spec: Mapping[str, Any], before: Sequence[str], after: Sequence[str]
    ) -> list[tuple[str, str]]:
        """The form of the job that compares two results; only where `compared`.

        spec: of the later result, as JSON.  before, after: digests of the counts of both.
        """
        raise NotImplementedError(f"results of kind {self.name!r} are not compared")


def job_kind_names() -> tuple[str, ...]:
    """All kinds of jobs: those of the service, and kinds of metric that have a decoder."""
    return tuple(dict.fromkeys((*_HOMES, *decoder_kind_names())))


def job_kind(name: object) -> JobKind | None:
    """The kind of a name, loaded at its first use; None where there is none of it here."""
    own = decoder_kind(name)
    if isinstance(name, str) and name in _HOMES and name not in _LOADED:
        _LOADED[name] = import_module(_HOMES[name]).KIND
    if isinstance(name, str) and name in _LOADED:
        return _LOADED[name]
    return None if own is None else _of_metric(own)


@cache
def _of_metric(decoder: DecoderKind) -> JobKind:
    """The kind of job that a kind of metric with a decoder is."""
    found: JobKind = import_module(_OF_METRICS).JobOfMetric(decoder)
    return found


def known_job_kind(name: object) -> JobKind:
    """The kind of a name. Raises DecodeError where there is none of it here any more."""
    kind = job_kind(name)
    if kind is None:
        raise DecodeError(
            f"there is no kind of job {str(name)[:40]!a} here; install and register the module of "
            "it for every worker and web process and start the job again, or start one of "
            f"kind {', '.join(job_kind_names())}"
        )
    return kind


def job_kinds() -> tuple[JobKind, ...]:
    """All kinds of jobs."""
    return tuple(kind for kind in map(job_kind, job_kind_names()) if kind is not None)


def job_kind_of_metric(metric_kind: object) -> JobKind:
    """The kind of job that decodes metrics of a kind; of one that is not known, its values."""
    values, *others = job_kinds()
    own = (kind for kind in others if kind.metric_kind is not None)
    return next((kind for kind in own if kind.metric_kind == metric_kind), values)
