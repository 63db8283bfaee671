"""Compute the answers that a device must give, from the declaration alone: B of each report of
one metric.

Written from `docs/protocol.md` and `docs/client.md`, not from the client: which value is answered,
what is sent past the cap, in a silent period and outside a grid, and that nothing else is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from privacy_audit.black_box.lives import NOTHING, Step, Value
from privacy_audit.black_box.number_scenarios import CLEAR
from rappor_core.calendar import date_of, last_day, period_number
from rappor_core.grid.box import NO_DATA
from rappor_core.grid.grid import OTHER, PAIR_SEPARATOR
from rappor_core.metrics.flow import Flow
from rappor_core.metrics.location import Slot
from rappor_core.metrics.metric import Metric

SATURDAY = 5


class ExpectedReport(NamedTuple):
    """A report that a device must send.

    metric: its name.  day: which it states.  bits: B of the answer; None where a cut of the
    device's own decides.  kind: `value`, `fallback`, `no_data`, `other`.
    """

    metric: str
    day: int
    bits: int | None
    kind: str


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


class _Memory:
    """What the ledger holds of one metric: the fallback goes first, or all values together."""

    def __init__(self, metric: Metric, cohort: int) -> None:
        self._metric, self._cohort = metric, cohort
        self.fallback = (
            None if metric.fallback is None else metric.value_bits(metric.fallback, cohort)
        )
        always = [x for x in (metric.fallback, metric.no_data) if x is not None]
        values = always if always and metric.fallback else metric.rules.all_values(metric)
        self._held = {metric.value_bits(value, cohort) for value in values}

    def answer(self, value: Value) -> tuple[int, str]:
        """B of what is sent for a value, and its kind."""
        metric = self._metric
        bits = metric.value_bits(value, self._cohort)
        if bits not in self._held and len(self._held) < metric.max_permanent_responses:
            self._held.add(bits)
        if bits in self._held:
            named = {metric.fallback: "fallback", metric.no_data: "no_data", OTHER: "other"}
            return bits, named.get(value, "value") if isinstance(value, str) else "value"
        assert self.fallback is not None  # noqa: S101 (without one all values have their places)
        return self.fallback, "fallback"


def _of_values(metric: Metric, cohort: int, steps: Iterable[Step]) -> list[ExpectedReport]:
    """One report a period; `no_data` of silent periods, as far back as days are accepted."""
    memory, found = _Memory(metric, cohort), list[ExpectedReport]()
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
    assert location is not None  # noqa: S101 (asked by the caller)
    steps = list(steps)
    stays = {period_number(shown.period, stay[0]): stay for stay in steps if stay[1] != NOTHING}
    own = [m for m in parts if m.location is not None and m.location.level == location.level]
    memory, found = _Memory(shown, cohort), list[ExpectedReport]()
    for period in _closed(shown, [day for day, _ in steps], 1):
        oldest = period - location.hold
        if location.turn == "fresh":  # no block answers with what another one saw
            oldest = max(oldest, period - period % location.window)
        back = range(period, oldest - 1, -1)
        for part in own:
            seen = (stays[one] for one in back if one in stays)
            where = next((value for at, value in seen if _in_slot(part, at, hour)), None)
            value, day = _place(part, where), last_day(shown.period, period)
            if location.rules.memoises:
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
    assert location is not None  # noqa: S101 (of a location's parts)
    slot = next(slot for slot in location.slots if slot.name == location.slot)
    return _covers(slot, day, hour)


def _covers(slot: Slot, day: int, hour: Callable[[int], int] | None) -> bool:
    weekend = date_of(day).weekday() >= SATURDAY
    return slot.covers(slot.first if hour is None else hour(day), weekend)


def _place(metric: Metric, where: Value) -> str:
    location = metric.location
    assert location is not None  # noqa: S101 (of a location's parts)
    if not isinstance(where, tuple):
        return metric.no_data or OTHER
    return str(location.grid.place(*where, location.level))
