"""What is wrong with a specification in itself, so that no job need fail of it."""

from __future__ import annotations

from decoder.candidates.lists import MAX_GENERATED
from decoder.service.errors import RequestError
from decoder.service.operations.metrics import Metrics
from decoder.service.specs import CandidateSpec, JobSpec, Kind, Source, decodes, kind_of_metric

_MOST_NAMED = 20  # metrics in a message


def check_spec(spec: JobSpec) -> None:
    """Raises RequestError for days or candidates that run backwards, or are too many."""
    for source in spec.sources:
        _check_days(source)
    check_candidates(spec.candidates)


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


def check_metric(metrics: Metrics, name: str) -> None:
    """That a schedule can decode a metric, as far as the collector can be asked.

    Raises RequestError for one that the collector has not, or that another kind of job decodes.
    """
    versions, others, problem = metrics.versions_of(name)
    if not versions:
        if not problem:
            raise RequestError(unknown_metric(name, others))
        return  # the schedule's `standing` says that it was not checked
    kinds = {_kind(row["definition"]) for row in versions}
    if not any(decodes(Kind.DECODE, kind) for kind in kinds):
        kind = sorted(kind or "" for kind in kinds)[0]
        raise RequestError(
            f"metric {name!a} is of kind {kind!a}, and a schedule decodes strings, categories and "
            f"booleans; start jobs of kind {kind_of_metric(kind)} for it"
        )


def unknown_metric(name: str, others: list[str]) -> str:
    """What is said of a metric that the collector has not."""
    named = ", ".join(ascii(one) for one in others[:_MOST_NAMED]) or "none yet"
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return f"the collector has no metric {name!a}; it has {named}{more}"


def _kind(definition: dict[str, object]) -> str | None:
    kind = definition.get("kind")
    return kind if isinstance(kind, str) else None
