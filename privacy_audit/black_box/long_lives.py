"""Check devices over years: permanent responses stay, and what is spent stays within its bounds.

Reports without a second round are the permanent responses themselves, so one that is drawn again
shows in a single report, and each distinct one that leaves is counted. Devices live through silent
years, daily use, changing values and clocks that go back, or record whatever they can of all
metrics, also after these expire.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Final

from privacy_audit.black_box.answers import (
    ExpectedReport,
    exchanged,
    expected_answers,
    without_second_round,
)
from privacy_audit.black_box.checks import Check, exact, one_of
from privacy_audit.black_box.program_client import ClientSource, Event, Life, SeenReport
from privacy_audit.black_box.scenarios import (
    Step,
    disjoint,
    reports_at_once,
    start_days,
    values_of,
)
from rappor_core.calendar import PERIOD_DAYS, day_of, last_day, period_number
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

CALENDARS: Final = "calendars"
BUDGETS: Final = "budgets"
DEVICES = 16  # of each calendar
GAPS = (0, 1, 2, 6, 7, 8, 13, 27, 28, 29, 30, 31, 32, 59, 60, 61, 89, 90, 91, 92, 120, 150, 181,
        182, 183, 184, 273, 304, 364, 365, 366, 367, 399, 400, 401, 402, 500, 548, 729, 730, 731,
        732, 800, 1000, 1095, 1096, 1460, 1461, 1462, 2000)  # fmt: skip
DAILY = 450  # days of daily use
BACK = "a clock that goes back"
LIVES = ("years of silence", "a year of daily use", "values that change", BACK)
SPENDERS = 36  # devices that record whatever they can
PERIODS = 16
VALUES = 12  # of each metric, among which a device draws
AFTER = (-3, -2, -1, 0, 1, 2, 3, 30, 366)  # periods from the one in which a metric expires


def left_out(metric: Metric) -> str:
    """Say why a metric's responses are not followed through calendars; "" if they are."""
    if not metric.params.mechanism.has_permanent_round:
        return "it has no permanent response"
    if metric.max_reports is not None and metric.kind == "discover":
        return "it has few reports for life"
    return ""


def calendar_checks(source: ClientSource, metric: Metric) -> Iterator[Check]:
    """Yield the checks of one metric's responses over all calendars.

    Raises:
        AuditedClientError: If the client fails.
    """
    shown = without_second_round(metric.replace(max_reports=None, no_data=None))
    with source.declaring(MetricsFile({shown.name: shown})).started() as client:
        for calendar in LIVES:
            steps = [_steps(shown, calendar) for _ in range(DEVICES)]
            lives = [
                Life(os.urandom(32), tuple(Event(shown.name, *step) for step in one))
                for one in steps
            ]
            yield _stable(shown, calendar, steps, client.record(lives))


def _steps(metric: Metric, calendar: str) -> tuple[Step, ...]:
    draw = Random(os.urandom(16))
    start = day_of(metric.expires) - max(GAPS) - 2 - draw.randrange(1500)
    a, b = disjoint(metric, values_of(metric))
    if calendar == LIVES[1]:
        return tuple((day, a) for day in range(start, start + DAILY))
    if calendar == BACK:
        unit = PERIOD_DAYS[metric.period]
        days = [day for gap in GAPS[::3] for day in (start + gap + 40 * unit, start + gap)]
        return tuple((day, a) for day in days)
    values = (a, b) if calendar == LIVES[2] else (a, a)
    return tuple((start + gap, values[i % 3 == 2]) for i, gap in enumerate(GAPS))


def _stable(
    metric: Metric, calendar: str, steps: list[tuple[Step, ...]], seen: list[list[SeenReport]]
) -> Check:
    redrawn = moved = total = 0
    for life, reports in zip(steps, seen, strict=True):
        moved += len({report.cohort for report in reports}) > 1
        wanted: dict[int, ExpectedReport] = {}
        if reports and calendar != BACK:
            wanted = {one.day: one for one in expected_answers(metric, reports[0].cohort, life)}
        responses: dict[object, set[bytes]] = defaultdict(set)
        for report in reports:
            answer = wanted.get(report.day)
            responses[answer and answer.bits].add(report.bits)
        total += len(reports)
        redrawn += any(len(shown) > 1 for shown in responses.values())
    wrong = [f"{redrawn} of {len(seen)} devices answered one value with two responses"] * bool(
        redrawn
    )
    wrong += [f"{moved} changed their cohort"] * bool(moved)
    return exact(
        metric.base_name, f"responses and cohorts stay the same through {calendar}", CALENDARS,
        "; ".join(wrong), one_of(len(seen), f"devices, over {total // len(seen)} reports each"),
    )  # fmt: skip


def budget_checks(source: ClientSource, metrics: list[Metric]) -> Iterator[Check]:
    """Yield the checks of what devices spend of all metrics together.

    Raises:
        AuditedClientError: If the client fails.
    """
    own = [metric for metric in metrics if reports_at_once(metric)]
    if not own:
        return
    shown = exchanged(MetricsFile({m.name: m for m in own}), without_second_round)
    draw = Random(os.urandom(16))
    spending = [Life(os.urandom(32), tuple(_events(shown, draw))) for _ in range(SPENDERS)]
    late = [Life(os.urandom(32), tuple(_late_events(shown, draw))) for _ in range(SPENDERS)]
    with source.declaring(shown).started() as client:
        spent, seen = client.record(spending), client.record(late)
    wrong = [text for reports in spent for text in _overspent(shown, reports)]
    yield exact(
        "", "each metric stays within its own bounds on responses and reports", BUDGETS,
        f"{wrong[0]} ({len(wrong)} times)" if wrong else "", one_of(len(spent), "devices"),
    )  # fmt: skip
    last = {metric.name: day_of(metric.expires) for metric in shown.declared}
    over = [one for reports in seen for one in reports if one.day > last[one.metric]]
    yield exact(
        "", "no metric reports a day after the one on which it expires", BUDGETS,
        f"{over[0].metric} did, {over[0].day - last[over[0].metric]} days after ({len(over)} times)"
        if over else "",
        one_of(sum(map(bool, seen)), "devices that report before it"),
    )  # fmt: skip


def _events(file: MetricsFile, draw: Random) -> Iterator[Event]:
    """Every period all metrics in an order by lot, most of them twice, values by lot."""
    for number in range(PERIODS):
        order = list(file.declared)
        draw.shuffle(order)
        for metric in order:
            day = start_days(metric, PERIODS)[number]
            value = draw.choice(values_of(metric)[:VALUES])
            for _ in range(draw.choice((1, metric.max_reports_per_period + 1))):
                yield Event(metric.name, day, value)


def _late_events(file: MetricsFile, draw: Random) -> list[Event]:
    """In the order of days, over all metrics; each first at a day on which it still reports."""
    events = []
    for metric in file.declared:
        pool, end = values_of(metric)[:VALUES], day_of(metric.expires)
        present = period_number(metric.period, end)
        for place in AFTER:
            for day in {last_day(metric.period, present + place), *((end,) if not place else ())}:
                events.append(Event(metric.name, day, draw.choice(pool)))
    return sorted(events, key=lambda event: event.day)


def _overspent(file: MetricsFile, reports: list[SeenReport]) -> Iterator[str]:
    """Yield each bound that a device broke. Two answers whose responses are alike count as one."""
    by_name: dict[str, list[SeenReport]] = defaultdict(list)
    for report in reports:
        by_name[report.metric].append(report)
    for metric in file.declared:
        own = by_name[metric.name]
        responses = len({report.bits for report in own})
        most = metric.max_permanent_responses
        if responses > most and metric.params.mechanism.has_permanent_round:
            yield f"{metric.name}: {responses} responses, at most {most}"
        if metric.max_reports is not None and len(own) > metric.max_reports:
            yield f"{metric.name}: {len(own)} reports for life, at most {metric.max_reports}"
        periods = Counter(period_number(metric.period, report.day) for report in own)
        if periods and max(periods.values()) > metric.max_reports_per_period:
            yield f"{metric.name}: {max(periods.values())} reports in a period"
