"""Compute the answers that a device must give, from the declaration alone: B of each report of
one metric.

Written from `docs/protocol.md` and `docs/client.md`, not from the client: which value is answered,
what is sent past the cap, in a silent period and outside a grid, and that nothing else is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from privacy_audit.black_box.answers import ExpectedReport, Memory
from rappor_core.calendar import SECONDS_A_DAY, date_of, last_day, period_number
from rappor_core.grid.box import NO_DATA, OTHER
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.metrics.flow import Flow
from rappor_core.metrics.location import Slot
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

SATURDAY = 5


NOTHING = "\0nothing"  # the value of a day on which the app records nothing
CLEAR = 0.999999  # of a stratum's width: as far as a cut is ever moved

Value = object  # a place is its latitude and longitude
Step = tuple[int, Value]  # a day since 1970-01-01 and what is recorded on it


def hour_of(day: int) -> int:
    """The hour, UTC, at which an app is opened on a day: another one each day, in every life."""
    return (day * 2_654_435_761 >> 16) % 24


def time_of(day: int) -> float:
    """Seconds since 1970 at which an app is opened on a day, at the hour of `hour_of`."""
    return float(day * SECONDS_A_DAY + 3600 * hour_of(day))


def exchanged(file: MetricsFile, how: Callable[[Metric], Metric]) -> MetricsFile:
    """Replace the noise of all metrics of a file, by a function of `privacy_audit`."""
    return MetricsFile({name: how(metric) for name, metric in file.metrics.items()})


def may_be_silent(metric: Metric) -> bool:
    """Whether a device reports some periods only, which its secret draws."""
    fresh = not metric.params.mechanism.has_permanent_round
    return fresh and (metric.rules.takes_fixes or metric.rules.collected)


def expected(
    parts: tuple[Metric, ...],
    shown: Metric,
    cohort: int,
    steps: tuple[Step, ...],
    hour: Callable[[int], int] | None = None,
) -> list[ExpectedReport]:
    """List all reports that a device must send in a life, in the order of days.

    parts: sub-metrics of one declared name.  shown: the one whose name a report had: it tells the
    device's level.  steps: in the order of days; of places a day's stay, and the last closes the
    period before.  hour: of a day, at which its stay is; None: in every slot.
    """
    if shown.location is not None:
        return _of_places(parts, shown, cohort, steps, hour)
    if shown.rules.takes_fixes:
        return _of_flows(shown, cohort, steps, hour)
    if shown.rules.collected:
        return _of_numbers(shown, cohort, steps)
    return _of_values(shown, cohort, steps)


def _of_values(metric: Metric, cohort: int, steps: Iterable[Step]) -> list[ExpectedReport]:
    """One report a period; `no_data` of silent periods, as far back as days are accepted."""
    memory, found = Memory(metric, cohort), list[ExpectedReport]()
    last: int | None = None
    for day, value in steps:
        present = period_number(metric.period, day)
        if metric.no_data is not None and last is not None:
            first = max(last + 1, period_number(metric.period, day - metric.accept_days))
            for period in range(first, present):
                bits, kind = memory.answer(metric.no_data)
                found.append(
                    ExpectedReport(metric.name, last_day(metric.period, period), bits, kind)
                )
                last = period
        if value == NOTHING or last == present:
            continue
        found.append(ExpectedReport(metric.name, day, *memory.answer(value)))
        last = present
    return found if metric.max_reports is None else found[: metric.max_reports]


def _closed(metric: Metric, days: Iterable[int], late: int) -> list[int]:
    """Periods that are over at a look, as far back as they are sent. days: of the looks.

    late: days beyond `accept_days` for which they are.
    """
    found, before = list[int](), None
    for day in days:
        present = period_number(metric.period, day)
        if before is not None and before < present:
            oldest = period_number(metric.period, day - metric.accept_days - late)
            found += range(max(before, oldest), present)
        before = present
    return found


def _of_numbers(metric: Metric, cohort: int, steps: Iterable[Step]) -> list[ExpectedReport]:
    """One report of each period that is over; of mode `once` of one among them."""
    steps = list(steps)
    kept = {period_number(metric.period, day): value for day, value in steps if value != NOTHING}
    return [
        ExpectedReport(
            metric.name, last_day(metric.period, period), _symbol(metric, cohort, kept.get(period)),
            "value" if period in kept else "no_data",
        )
        for period in _closed(metric, [day for day, _ in steps], 0)
    ]  # fmt: skip


def _symbol(metric: Metric, cohort: int, value: Value) -> int | None:
    scheme = metric.params.scheme
    ends = {scheme.jittered_bits(metric, value, cohort, moved) for moved in (0.0, CLEAR)}
    return ends.pop() if len(ends) == 1 else None


def _of_places(
    parts: tuple[Metric, ...],
    shown: Metric,
    cohort: int,
    steps: Iterable[Step],
    hour: Callable[[int], int] | None,
) -> list[ExpectedReport]:
    """One for each slot of each period that is over: where the device was, or what is held.

    Of the modes `window` and `once` what would be answered: they report few of them.
    """
    location = shown.location
    assert location is not None
    steps = list(steps)
    stays = {period_number(shown.period, stay[0]): stay for stay in steps if stay[1] != NOTHING}
    own = [m for m in parts if m.location is not None and m.location.level == location.level]
    memory, found = Memory(shown, cohort), list[ExpectedReport]()
    for period in _closed(shown, [day for day, _ in steps], 1):
        oldest = period - location.hold
        if location.turn == "fresh":  # no block answers with what another one saw
            oldest = max(oldest, period - period % location.window)
        back = range(period, oldest - 1, -1)
        for part in own:
            seen = (stays[one] for one in back if one in stays)
            where = next((value for at, value in seen if _in_slot(part, at, hour)), None)
            value, day = _place(part, where), last_day(shown.period, period)
            if location.rules.memoizes:
                found.append(ExpectedReport(part.name, day, *memory.answer(value)))
            else:
                kind = "value" if isinstance(where, tuple) else "no_data"
                found.append(ExpectedReport(part.name, day, part.value_bits(value, cohort), kind))
    return found


def _of_flows(
    metric: Metric, cohort: int, steps: Iterable[Step], hour: Callable[[int], int] | None
) -> list[ExpectedReport]:
    """What would be answered at the end of each period that is over: a device reports few."""
    flow: Flow = metric.details
    steps = list(steps)
    stays = {period_number(metric.period, stay[0]): stay for stay in steps if stay[1] != NOTHING}
    first = period_number(metric.period, steps[0][0])

    def side(period: int, slot: Slot) -> str:
        day, where = stays.get(period, (0, None))
        if not isinstance(where, tuple) or not _covers(slot, day, hour):
            return NO_DATA
        return flow.grid.place(*where, flow.grid.finest)

    found = []
    for period in _closed(metric, [day for day, _ in steps], 1):
        if period - flow.lag < first:
            continue
        sides = side(period - flow.lag, flow.origin), side(period, flow.destination)
        bits = metric.value_bits(PAIR_SEPARATOR.join(sides), cohort)
        kind = "no_data" if sides == (NO_DATA, NO_DATA) else "value"
        found.append(ExpectedReport(metric.name, last_day(metric.period, period), bits, kind))
    return found


def _in_slot(metric: Metric, day: int, hour: Callable[[int], int] | None) -> bool:
    """Whether a stay is in the slot of a sub-metric."""
    location = metric.location
    assert location is not None
    slot = next(slot for slot in location.slots if slot.name == location.slot)
    return _covers(slot, day, hour)


def _covers(slot: Slot, day: int, hour: Callable[[int], int] | None) -> bool:
    weekend = date_of(day).weekday() >= SATURDAY
    return slot.covers(slot.first if hour is None else hour(day), weekend)


def _place(metric: Metric, where: Value) -> str:
    location = metric.location
    assert location is not None
    if not isinstance(where, tuple):
        return metric.no_data or OTHER
    return str(location.grid.place(*where, location.level))
