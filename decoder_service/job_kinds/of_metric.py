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
from decoder_service.job_kinds.of_values import level_words
from decoder_service.jobs.kinds import JobInputs, JobKind, StoredResult

if TYPE_CHECKING:
    from decoder.output.tables import TableQuery
    from decoder_service.jobs.specs import JobSpec


class JobOfMetric(JobKind):
    """A job that is called as the kind of metric that it decodes."""

    members = frozenset({"options"})

    def __init__(self, decoder: DecoderKind) -> None:
        self.decoder = decoder
        self.name = self.metric_kind = decoder.name
        self.title, self.purpose = decoder.title, decoder.purpose
        self.template = decoder.template
        self.tables = ("results.json", decoder.table)
        self.published = decoder.published

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
        """`rappor decode`, which knows the kind."""
        del metric
        options = spec.options
        words = level_words(options.alpha, options.level, options.repeats)
        return ["rappor", "decode", *sources[0], *words]
