"""Jobs of kinds of metric that have a decoder of their own (`decoder.workflows.kinds`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from decoder.errors import DecodeError
from decoder.progress import Progress
from decoder.workflows.decoding import CandidateChoice
from decoder.workflows.kinds import DecoderKind, KindAnswer, run_own
from decoder_service.job_kinds.of_values import exact, level_words, set_words
from decoder_service.jobs.kinds import JobInputs, JobKind, StoredResult
from decoder_service.jobs.specs import FlowChoices
from decoder_service.lists.contents import file_name
from decoder_service.lists.rows import ListKind

if TYPE_CHECKING:
    from decoder.output.tables import TableQuery
    from decoder_service.jobs.specs import JobSpec


class JobOfMetric(JobKind):
    """A job that is called as the kind of metric that it decodes."""

    def __init__(self, decoder: DecoderKind) -> None:
        self.decoder = decoder
        self.name = self.metric_kind = decoder.name
        self.title, self.purpose = decoder.title, decoder.purpose
        self.template = decoder.template
        self.tables = ("results.json", decoder.table)
        self.published = decoder.published
        self.members = frozenset({"options"}) | decoder.members
        self.metric_is_argument = decoder.command != "decode"

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Decode with the decoder of the kind; return what a list of results keeps."""
        job = replace(inputs.decoding(), candidates=CandidateChoice())
        if inputs.declared_kind == self.name:
            answer = run_own(job, None, progress)
            if isinstance(answer, KindAnswer):
                return self.decoder.summary(answer.content)
        raise DecodeError(f"metric {inputs.metric!a} is not of kind {self.name!r}")

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """A few words on the result, by the decoder of the kind."""
        return self.decoder.in_list(dict(summary))

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """The variables of the template of the kind."""
        return self.decoder.view(json.loads(result.read("results.json")), query)

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """`rappor decode`, which knows the kind, or a command of the kind."""
        options = spec.options
        words = level_words(options.alpha, options.level, options.repeats)
        if self.decoder.command == "decode":
            settings = {"level": exact(options.level)}
            settings |= {} if options.repeats is None else {"repeats": exact(options.repeats)}
            words = ["--alpha", exact(options.alpha), *set_words(settings)]
        if spec.known is not None:
            words += ["--prior", file_name(ListKind.FLOWS, spec.known.list, spec.known.version)]
        if spec.flows != FlowChoices():
            words += ["--min-km", exact(spec.flows.min_km), "--top", str(spec.flows.top)]
        named = [metric] if self.metric_is_argument else []
        return ["rappor", self.decoder.command, *named, *sources[0], *words]
