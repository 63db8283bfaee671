"""Check that permanent responses and cohorts are constant for life, whatever the calendar does.

Reports without a second round are the permanent responses themselves, so one that is drawn again
shows in a single report. Devices live through silent years, daily use, changing values and clocks
that go back.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Final

from privacy_audit.black_box.answers import (
    ExpectedReport,
    expected_answers,
    without_second_round,
)
from privacy_audit.black_box.checks import Check, exact, one_of
from privacy_audit.black_box.program_client import ClientSource, Event, Life, SeenReport
from privacy_audit.black_box.scenarios import Step, disjoint, hashes_text, values_of
from rappor_core.calendar import PERIOD_DAYS, day_of
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

PART: Final = "calendars"
DEVICES = 16  # of each calendar
GAPS = (0, 1, 2, 6, 7, 8, 13, 27, 28, 29, 30, 31, 32, 59, 60, 61, 89, 90, 91, 92, 120, 150, 181,
        182, 183, 184, 273, 304, 364, 365, 366, 367, 399, 400, 401, 402, 500, 548, 729, 730, 731,
        732, 800, 1000, 1095, 1096, 1460, 1461, 1462, 2000)  # fmt: skip
DAILY = 450  # days of daily use
BACK = "a clock that goes back"
LIVES = ("years of silence", "a year of daily use", "values that change", BACK)


def left_out(metric: Metric) -> str:
    """Say why a metric's responses are not followed through calendars; "" if they are."""
    if not metric.params.mechanism.has_permanent_round:
        return "it has no permanent response"
    if metric.max_reports is not None and metric.rules.free_text and not hashes_text(metric):
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
        metric.base_name, f"responses and cohorts stay the same through {calendar}", PART,
        "; ".join(wrong), one_of(len(seen), f"devices, over {total // len(seen)} reports each"),
    )  # fmt: skip
