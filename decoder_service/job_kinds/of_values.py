"""What jobs share that look for candidates: counts, summaries, words of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decoder.errors import DecodeError
from decoder.output.decoding_files import results
from decoder.results.tables import Decoding
from decoder_service.jobs.kinds import JobInputs, JobKind, job_kind_of_metric
from decoder_service.lists.contents import file_name
from decoder_service.lists.rows import ListKind

if TYPE_CHECKING:
    from decoder_service.jobs.specs import Choices, JobSpec

MOST_SHOWN = 20  # values in a summary


class JobOfValues(JobKind):
    """A job that looks for candidates in the counts of one metric."""

    members = frozenset({"candidates", "weights", "options"})

    def decodes(self, metric_kind: str | None) -> bool:
        """All metrics but those of kinds that have jobs of their own."""
        return job_kind_of_metric(metric_kind).of_values

    @property
    def decoded(self) -> str:
        """A clause on which metrics a job of this kind decodes."""
        return (
            f"a job of kind {self.name} decodes strings, categories, booleans and the cells of a "
            "location"
        )

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """How many values were found."""
        return f"{summary['num_detected']:,} of {summary['num_candidates']:,} found"

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """`rappor decode` with the options of the job."""
        del metric
        counts = [word for words in sources for word in words]
        return ["rappor", "decode", *counts, *_listed(spec), *_options(spec.options)]


def refuse_other_kinds(inputs: JobInputs) -> None:
    """Raises DecodeError for a metric that another kind of job decodes, but for single cells."""
    usual = job_kind_of_metric(inputs.declared_kind)
    if not usual.of_values and not usual.of_places:
        raise DecodeError(
            f"metric {inputs.metric!a} is of kind {inputs.declared_kind!r}: start a job of kind "
            f"{usual.name}"
        )


def summary_of(decoding: Decoding) -> dict[str, Any]:
    """What a list of results keeps of a decoding."""
    found = results(decoding)
    keys = ("value", "share", "std_error", "low", "high", "p_value", "p_adjusted")
    top = [{key: row[key] for key in keys} for row in found["detected"][:MOST_SHOWN]]
    numbers = ("num_candidates", "num_detected", "num_reports", "detectable_share")
    return {
        **{name: found["summary"][name] for name in numbers},
        "warnings": found["warnings"],
        "reason": found["reason"],
        "top": top,
    }


def level_words(
    alpha: float, level: float, repeats: float | None, more: Sequence[str] = ()
) -> list[str]:
    """The options of a command for levels and repetition. more: those that stand before it."""
    words = ["--alpha", exact(alpha), "--level", exact(level), *more]
    return words + ([] if repeats is None else ["--repeats", exact(repeats)])


def exact(number: float) -> str:
    """A text that is read as the same number."""
    return repr(number).removesuffix(".0")


def _listed(spec: JobSpec) -> list[str]:
    """The options for candidates and weights."""
    given, weights, words = spec.candidates, spec.weights, []
    if given.list:
        words = ["--candidates", file_name(ListKind.CANDIDATES, given.list, given.version)]
    elif given.numbers:
        words = ["--candidates", ":".join(map(str, given.numbers))]
    elif given.dates:
        words = ["--candidates", ":".join(map(str, given.dates))]
    if weights is not None:
        name = file_name(ListKind.WEIGHTS, weights.list, weights.version)
        words += ["--set", f"weights={name}"]
    return words


def _options(options: Choices) -> list[str]:
    settings = {"level": exact(options.level)}
    if options.largest_p != 1.0:
        settings["largest_p"] = exact(options.largest_p)
    if options.repeats is not None:
        settings["repeats"] = exact(options.repeats)
    if options.without_cohorts:
        settings["without_cohorts"] = ",".join(map(str, options.without_cohorts))
    words = ["--method", options.method, "--correction", options.correction]
    return [*words, "--alpha", exact(options.alpha), *set_words(settings)]


def set_words(settings: Mapping[str, str]) -> list[str]:
    """The rarer options of `rappor decode`."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
