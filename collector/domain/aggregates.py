"""Aggregates and totals for metrics, and the rules for the windows that are served.

Every answer is the sum of whole sealed blocks of one series. A sealed block never changes. It has
at least `min_reports`, and each cohort has either no reports or at least `cohort_floor`. So two
answers for a series are equal or differ by whole blocks, and the same is true for each cohort.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from sqlalchemy import Connection

from collector.domain.growth import find_growth
from collector.domain.registry import RegisteredSeries, Registry, load_registry
from collector.errors import NotServedError
from collector.store.blocks import (
    BlockRow,
    accepted_totals,
    counts_by_cohort,
    load_blocks,
    load_possible,
    sum_blocks,
)
from collector.store.counters import reports_by_day
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of, day_of
from rappor_core.text import counted


def read_aggregate(
    connection: Connection,
    name: str,
    *,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Aggregate:
    """Return the counts of a window of closed days, in whole blocks.

    The caller must have closed all due days. Raises NotFoundError if the metric or version is
    unknown, or NotServedError if the window is not served.
    """
    entry = load_registry(connection).current(name, params_id)
    blocks = blocks_of_window(entry, load_blocks(connection, entry.series_id), first, last)
    sums = sum_blocks(connection, [block.id for block in blocks])
    params = entry.metric.params
    reports_per_cohort, bit_counts = counts_by_cohort(sums, params.num_cohorts, params.num_bits)
    return Aggregate(
        metric=entry.metric.name,
        params=params,
        params_id=entry.params_id,
        definition=entry.metric.to_dict(),
        first_day=date_of(blocks[0].first_day),
        last_day=date_of(blocks[-1].last_day),
        reports_per_cohort=reports_per_cohort,
        bit_counts=bit_counts,
    )


def list_metrics(connection: Connection, today: date) -> list[dict[str, Any]]:
    """Return every version of every metric, with its state, totals, and days by status.

    `next` is the block that will be served next, with its reports so far. `growing` contains the
    open days that `find_growth` returns.
    """
    registry = load_registry(connection)
    totals = accepted_totals(connection)
    served: dict[int, dict[str, str]] = {}
    waiting: dict[int, dict[str, object]] = {}
    unserved: defaultdict[int, Counter[int]] = defaultdict(Counter)  # reports by day
    for (series_id, open_day), number in reports_by_day(connection).items():
        unserved[series_id][open_day] += number
    for block in load_possible(connection):
        if not block.sealed:
            waiting[block.series_id] = waiting_days(block)
            unserved[block.series_id][block.last_day] += block.num_reports
        else:
            span = served.setdefault(block.series_id, {"first_day": _iso(block.first_day)})
            span["last_day"] = _iso(block.last_day)
    growing: defaultdict[int, list[dict[str, object]]] = defaultdict(list)
    for entry, day, reports, usual in find_growth(connection, registry):
        growing[entry.series_id].append({"day": day, "reports": reports, "usual": usual})
    return [
        {
            "name": entry.metric.name,
            "params_id": entry.params_id,
            "state": _state(entry, registry, today),
            "accepted": totals.get(entry.series_id, 0),
            "today": unserved[entry.series_id][day_of(today)],
            "closed_through": _iso(entry.closed_through),
            "served": served.get(entry.series_id),
            "waiting": waiting.get(entry.series_id),
            "next": next_block(entry, unserved[entry.series_id]),
            "growing": growing[entry.series_id],
            "definition": entry.metric.to_dict(),
        }
        for entry in registry
    ]


def next_block(entry: RegisteredSeries, unserved: Mapping[int, int]) -> dict[str, object] | None:
    """Return the earliest date on which the next block can close, and the reports it lacks.

    The keys are `closes` and `missing_reports`. The block ends on the first day with enough reports
    in total; a cohort with too few delays it further. None if there are no reports.

    Args:
        entry: The series.
        unserved: The number of reports by day, for days that are not in a sealed block.
    """
    missing, row = entry.metric.min_reports, None
    for day in sorted(unserved):
        missing = max(0, missing - unserved[day])
        closes = _iso(entry.closes(max(day, entry.closed_through + 1)))
        row = {"closes": closes, "missing_reports": missing}
        if not missing:
            break
    return row


def _state(entry: RegisteredSeries, registry: Registry, today: date) -> str:
    if entry.retired:
        return "retired"
    if entry.metric.expires < today:
        return "expired"
    return "current" if registry.current(entry.metric.name) is entry else "older"


def _iso(day: int) -> str:
    return date_of(day).isoformat()


def blocks_of_window(
    entry: RegisteredSeries, blocks: Sequence[BlockRow], first: date | None, last: date | None
) -> list[BlockRow]:
    """Return the sealed blocks in a window, oldest first; without bounds, all blocks.

    `blocks` are the series' blocks, oldest first. Raises NotServedError, which states the reason
    and the days that are served.
    """
    sealed = [block for block in blocks if block.sealed]
    if not sealed:
        raise _nothing_yet(entry, blocks)
    if first is not None and last is not None and first > last:
        raise NotServedError(
            f"the window {first} to {last} runs backwards", reason="window_backwards"
        )
    start = sealed[0].first_day if first is None else day_of(first)
    end = sealed[-1].last_day if last is None else day_of(last)
    if end > sealed[-1].last_day:
        raise _not_yet(entry, blocks, sealed, end)
    touched = [block for block in sealed if block.first_day <= end and start <= block.last_day]
    inside = [block for block in touched if start <= block.first_day and block.last_day <= end]
    cut = [block for block in touched if block not in inside]
    if cut:
        raise _cut(entry, cut, sealed)
    if not inside:
        raise NotServedError(
            f"metric {entry.metric.name!a} has no reports from {date_of(start)} to "
            f"{date_of(end)}; served are {_span(sealed)}",
            reason="no_reports",
            **_served(sealed),
        )
    return inside


def _nothing_yet(entry: RegisteredSeries, blocks: Sequence[BlockRow]) -> NotServedError:
    if blocks:
        return NotServedError(
            f"metric {entry.metric.name!a}: {_too_few(entry, blocks[-1])}",
            reason=_reason(entry, blocks[-1]),
            waiting=waiting_days(blocks[-1]),
        )
    return NotServedError(
        f"metric {entry.metric.name!a} has no closed day with reports; {_next_closing(entry)}",
        reason="no_closed_days",
        closes=_iso(entry.closes(entry.closed_through + 1)),
    )


def _not_yet(
    entry: RegisteredSeries, blocks: Sequence[BlockRow], sealed: Sequence[BlockRow], end: int
) -> NotServedError:
    """Return the error for a window that contains open days or days with too few reports."""
    served = f"served are {_span(sealed)}"
    if end > entry.closed_through:
        return NotServedError(
            f"day {date_of(end)} is not closed; {served}; {_next_closing(entry)}",
            reason="day_open",
            closes=_iso(entry.closes(end)),
            **_served(sealed),
        )
    if blocks[-1].sealed:
        why = f"days after {_iso(sealed[-1].last_day)} have no reports"
        return NotServedError(f"{why}; {served}", reason="too_few_reports", **_served(sealed))
    return NotServedError(
        f"{_too_few(entry, blocks[-1])}; {served}",
        reason=_reason(entry, blocks[-1]),
        waiting=waiting_days(blocks[-1]),
        **_served(sealed),
    )


def _cut(
    entry: RegisteredSeries, cut: Sequence[BlockRow], sealed: Sequence[BlockRow]
) -> NotServedError:
    spans = [[_iso(block.first_day), _iso(block.last_day)] for block in cut]
    words = " and ".join(f"{first} to {last}" for first, last in spans)
    return NotServedError(
        f"metric {entry.metric.name!a}: days {words} were merged, because a day had fewer than "
        f"min_reports = {counted(entry.metric.min_reports, 'report')}, or than "
        f"min_reports_per_cohort = {entry.metric.cohort_floor} in a cohort; a window "
        "takes all of them or none",
        reason="window_cuts_block",
        blocks=spans,
        **_served(sealed),
    )


def waiting_days(pending: BlockRow) -> dict[str, object]:
    """Return the range of closed days not served yet, with total and smallest cohort."""
    return {
        "first_day": _iso(pending.first_day),
        "last_day": _iso(pending.last_day),
        "reports": pending.num_reports,
        "smallest_cohort": pending.smallest_cohort,
    }


def _reason(entry: RegisteredSeries, pending: BlockRow) -> str:
    if pending.num_reports < entry.metric.min_reports:
        return "too_few_reports"
    return "too_few_in_a_cohort"


def _too_few(entry: RegisteredSeries, pending: BlockRow) -> str:
    metric = entry.metric
    counts = f"{counted(pending.num_reports, 'report')} of min_reports = {metric.min_reports}"
    if pending.num_reports >= metric.min_reports:
        counts = (
            f"{counted(pending.smallest_cohort or 0, 'report')} in their smallest cohort of "
            f"min_reports_per_cohort = {metric.cohort_floor}"
        )
    follow = "are served with the days that follow"
    if entry.retired:
        follow = "are never served, as this version is retired and no days follow"
    days = f"{_iso(pending.first_day)} to {_iso(pending.last_day)}"
    return f"closed days {days} have {counts}, and {follow}"


def _next_closing(entry: RegisteredSeries) -> str:
    first_open = entry.closed_through + 1
    until = date_of(first_open + entry.metric.accept_days)
    closes = _iso(entry.closes(first_open))
    return f"day {date_of(first_open)} takes reports through {until}, and closes on {closes}"


def _served(sealed: Sequence[BlockRow]) -> dict[str, object]:
    return {
        "served": {"first_day": _iso(sealed[0].first_day), "last_day": _iso(sealed[-1].last_day)}
    }


def _span(sealed: Sequence[BlockRow]) -> str:
    return f"{_iso(sealed[0].first_day)} to {_iso(sealed[-1].last_day)}"
