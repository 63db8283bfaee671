"""Checks of a job before its counts are read, so that no job fails for a reason that is known
before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

from decoder.candidates.lists import MAX_GENERATED
from decoder.errors import DecodeError
from decoder.inference.multiple_testing import WEIGHTED
from decoder.kinds.interface import KindDecoder, decoder_of, has_candidates
from decoder.sources.windows import Each, window_end
from decoder_service.jobs.known_counts import (
    KnownCounts,
    counts_of_version,
    days_held,
    sum_of_known,
)
from decoder_service.jobs.specs import (
    CandidateSpec,
    CountSource,
    JobSpec,
    WindowSpec,
    check_members,
)
from decoder_service.metrics.rules import Metrics
from decoder_service.shell.errors import FieldError, RequestError

_MOST_NAMED = 20  # metrics in a message


Known = Sequence[KnownCounts]


def check_job(spec: JobSpec, counts: Sequence[Known | None]) -> None:
    """Raise RequestError if a job cannot succeed, as far as that is known before its counts are
    read.

    Args:
        spec: what is wanted, which `check_spec` has passed; of a schedule that of every window.
        counts: what is known of each source of it; None where they are not known.

    Raises:
        RequestError: it cannot.
    """
    kinds = {one.kind or "string" for known in counts for one in known or ()}
    for name in sorted(kinds):
        check_members(spec, kind_decoder(name), name)
    for known in counts:
        for one in known or ():
            _check_cohorts(spec, one)
            no_values = one.own_values is False and spec.candidates == CandidateSpec()
            if no_values and has_candidates(one.kind or "string"):
                raise FieldError(
                    f"metric {one.metric!a} has no list of its values, which must be guessed to be "
                    "found: choose a list of candidates, numbers or days",
                    "list",
                )
    if any("map" in kind_decoder(name).members for name in kinds):
        return  # slots, levels and windows are many metrics, which are not added
    summed = [sum_of_known(known, "leave one of them out") for known in counts if known]
    if len(summed) == len(spec.sources) > 1:
        sum_of_known(summed, "compare two windows of one version, one after the other")
    if spec.operation == "series" and counts[0]:
        _check_windows(spec.each, spec.source, counts[0])


def kind_decoder(name: str) -> KindDecoder:
    """The decoder of a kind of metric. Raises RequestError for a kind without one."""
    try:
        return decoder_of(name)
    except DecodeError as error:
        raise RequestError(str(error)) from None


def check_spec(spec: JobSpec) -> None:
    """Raises RequestError for what runs backwards, is too many, or does not go together."""
    for source in spec.sources:
        window = source.collector
        if window and window.first and window.last and window.first > window.last:
            raise RequestError(
                f"the first day, {window.first}, is after the last, {window.last}; exchange them"
            )
        for what, names in (("aggregate", source.aggregates), ("file", source.files)):
            for name, times in Counter(names).items():
                if times > 1:
                    raise RequestError(
                        f"{what} {name} is named {times} times: its reports would count as often; "
                        "name it once"
                    )
    if spec.before is not None:
        _check_apart(spec.before, spec.source)
    check_candidates(spec.candidates)
    correction = spec.options.correction
    if spec.weights is not None and correction not in WEIGHTED:
        raise FieldError(
            f"weights: they divide the level of {', '.join(WEIGHTED)}; {correction} "
            "has none to divide: choose another correction, or no weights",
            "weights",
        )


def _check_apart(before: CountSource, after: CountSource) -> None:
    """Raises RequestError for two windows of a comparison that share counts."""
    shared = [*{*before.aggregates} & {*after.aggregates}, *{*before.files} & {*after.files}]
    if shared:
        raise RequestError(
            f"{min(shared)} is in both windows of the comparison; leave it out of one of them"
        )
    one, other = before.collector, after.collector
    if one is None or other is None or one.metric != other.metric:
        return
    first = max(one.first or date.min, other.first or date.min)
    last = min(one.last or date.max, other.last or date.max)
    if first <= last:
        raise RequestError(
            f"the windows of the comparison, {_days(one)} and {_days(other)}, share days; give "
            "both a first and a last day, and no day to both"
        )


def _check_cohorts(spec: JobSpec, known: KnownCounts) -> None:
    without, total = set(spec.options.without_cohorts), known.num_cohorts
    if total is None or not without:
        return
    if max(without) >= total:
        raise RequestError(
            f"without_cohorts: cohort {max(without)} is not one of 0 to {total - 1}, which metric "
            f"{known.metric!a} has"
        )
    if len(without) == total:
        raise RequestError(
            f"without_cohorts: all {total} cohorts of metric {known.metric!a} are left out, and so "
            "all reports; keep those that follow the model"
        )


def _check_windows(each: Each, source: CountSource, counts: Known) -> None:
    """Check that a series has two windows or more. Raises RequestError."""
    dated = []
    for one in counts:
        if one.first_day is None or one.last_day is None:
            raise RequestError(
                f"an aggregate of {one.metric!a} does not say its days, and so has no place in a "
                "series; fetch it by rappor aggregate --from DAY --to DAY"
            )
        dated.append((one.first_day, one.last_day))
    if source.collector is not None:
        ((first, last),) = dated
        several = window_end(first, each, last) < last
    else:
        several = len({window_end(first, each) for first, _ in dated}) > 1
    if not several:
        named = " and ".join(sorted({f"{first} to {last}" for first, last in dated}))
        raise RequestError(
            f"{named}: one window by {each}, and a series needs two or more; take more days, or "
            "start a job with operation decode"
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


def counts_of_source(
    metrics: Metrics, spec: JobSpec, source: CountSource, *, fresh: bool = False
) -> Known | None:
    """The known properties of the counts that a job asks of the collector; None for another
    source.

    Args:
        metrics: asked, in a time that no transaction waits for.
        spec: of a job.
        source: one of its sources.
        fresh: whether the collector is to be asked now; or else half a minute ago will do.

    Returns:
        Of a location every slot and level, of others the latest version, with the days that are
        asked for and served; None also where the collector does not answer.

    Raises:
        RequestError: the collector has no such metric, or serves no day of the window.
    """
    window = source.collector
    if window is None:
        return None
    versions = metric_versions(metrics, window.metric, fresh=fresh)
    latest = {row["name"]: row for row in versions or ()}
    if not latest:
        return None
    served = [counts_of_version(row) for row in latest.values() if row["served"]]
    if not served:
        raise RequestError(
            f"the collector serves no day of metric {window.metric!a} yet"
            f"{days_held(next(iter(latest.values())), None)}"
        )
    within = []
    for one in served:
        first = max(window.first or date.min, one.first_day or date.min)
        last = min(window.last or date.max, one.last_day or date.max)
        if first <= last:
            within.append(one.model_copy(update={"first_day": first, "last_day": last}))
    if not within:
        spans = [day for one in served for day in (one.first_day, one.last_day) if day]
        raise RequestError(
            f"the collector serves {min(spans)} to {max(spans)} of metric {window.metric!a}, and "
            f"no day of {_days(window)}; choose days of those"
        )
    for one in () if spec.in_parts else served:
        if window.last and one.last_day and window.last > one.last_day:
            raise RequestError(
                f"the collector serves {one.first_day} to {one.last_day} of metric "
                f"{window.metric!a}, and not yet {window.last}; end the window on "
                f"{one.last_day}, or wait{days_held(latest[one.metric], window.last)}"
            )
    return within


def _days(window: WindowSpec) -> str:
    if window.first is None and window.last is None:
        return "all days that are served"
    return f"{window.first or 'the first day'} to {window.last or 'the last day'}"


def metric_versions(
    metrics: Metrics, name: str, *, fresh: bool = False
) -> list[dict[str, Any]] | None:
    """The versions of a metric as the collector lists them, the latest last; of a location those
    of all its slots and levels.

    Returns None where the collector does not answer: a schedule's status says so, a job how it
    ended. Raises RequestError for a metric that the collector has not.
    """
    versions, others, problem = metrics.versions_of(name, fresh=fresh)
    if not versions and not problem:
        raise FieldError(unknown_metric(name, others), "metric")
    return None if problem else versions


def unknown_metric(name: str, others: list[str]) -> str:
    """The sentence that the collector has no metric of this name, with the names that it has."""
    named = ", ".join(ascii(one) for one in others[:_MOST_NAMED]) or "none yet"
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return f"the collector has no metric {name!a}; it has {named}{more}"
