"""What is wrong with a specification in itself, so that no job need fail of it."""

from __future__ import annotations

from decoder.candidates.lists import MAX_GENERATED
from decoder.inference.multiple_testing import WEIGHTED
from decoder.service.errors import RequestError
from decoder.service.operations.metrics import Metrics
from decoder.service.specs import (
    OF_VALUES,
    CandidateSpec,
    Choices,
    JobSpec,
    Kind,
    Source,
    WeightSpec,
    decodes,
    kind_of_metric,
)

_MOST_NAMED = 20  # metrics in a message
_OF_STRINGS = "decodes strings, categories, booleans and the cells of a location"
_WORDS = {
    Kind.DECODE: f"a job of kind decode {_OF_STRINGS}",
    Kind.SERIES: f"a job of kind series {_OF_STRINGS}, and numbers",
    Kind.COMPARE: f"a job of kind compare {_OF_STRINGS}",
    **{kind: f"a job of kind {kind} decodes no other" for kind in
       (Kind.DENSITY, Kind.NUMBER, Kind.PAIR, Kind.DISCOVER)},
}  # fmt: skip


def check_spec(spec: JobSpec) -> None:
    """Raises RequestError for what runs backwards, is too many, or does not go together."""
    for source in spec.sources:
        _check_days(source)
    check_candidates(spec.candidates)
    check_weights(spec.weights, spec.options)


def check_weights(weights: WeightSpec | None, options: Choices) -> None:
    """Raises RequestError for weights with a rule that has no level to divide."""
    if weights is not None and options.correction not in WEIGHTED:
        raise RequestError(
            f"weights: they divide the level of {', '.join(WEIGHTED)}; {options.correction} "
            "has none to divide: choose another correction, or no weights"
        )


def _check_days(source: Source) -> None:
    window = source.collector
    if window is None or window.first is None or window.last is None:
        return
    if window.first > window.last:
        raise RequestError(
            f"the first day, {window.first}, is after the last, {window.last}; exchange them"
        )


def check_candidates(candidates: CandidateSpec) -> None:
    """Raises RequestError for a range without a value, or with too many."""
    if candidates.dates is not None and candidates.dates[0] > candidates.dates[1]:
        days = f"the first, {candidates.dates[0]}, is after the last, {candidates.dates[1]}"
        raise RequestError(f"dates: {days}; exchange them")
    if candidates.numbers is None:
        return
    first, last, step = (*candidates.numbers, 1)[:3]
    if first > last or step < 1:
        raise RequestError(
            f"numbers: {first} to {last} by {step} has none; give the smallest first, and a step "
            "of 1 or more"
        )
    if (last - first) // step >= MAX_GENERATED:
        raise RequestError(
            f"numbers: {first} to {last} by {step} are more than {MAX_GENERATED:,}; take a larger "
            "step, or a list"
        )


def check_metric(metrics: Metrics, name: str, kind: Kind, *, scheduled: bool = False) -> None:
    """That a job or a schedule can decode a metric, as far as the collector can be asked.

    Raises RequestError for one that the collector has not, or that another kind of job decodes.
    """
    versions, others, problem = metrics.versions_of(name, of_places=kind == Kind.DENSITY)
    if not versions:
        if not problem:
            raise RequestError(unknown_metric(name, others))
        return  # a schedule's `standing` says that it was not checked, a job how it ended
    kinds = {_kind(row["definition"]) for row in versions}
    if any(decodes(kind, one) or (not scheduled and _by_cells(kind, one)) for one in kinds):
        return
    found = sorted(one or "" for one in kinds)[0]
    who = "a schedule decodes strings, categories and booleans" if scheduled else _WORDS[kind]
    raise RequestError(
        f"metric {name!a} is of kind {found!a}, and {who}; start jobs of kind "
        f"{kind_of_metric(found)} for it"
    )


def _by_cells(kind: Kind, metric_kind: str | None) -> bool:
    """Whether a job decodes one slot and level of a location, each of whose cells is a value."""
    return kind in OF_VALUES and metric_kind == "location"


def unknown_metric(name: str, others: list[str]) -> str:
    """What is said of a metric that the collector has not."""
    named = ", ".join(ascii(one) for one in others[:_MOST_NAMED]) or "none yet"
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return f"the collector has no metric {name!a}; it has {named}{more}"


def _kind(definition: dict[str, object]) -> str | None:
    kind = definition.get("kind")
    return kind if isinstance(kind, str) else None
