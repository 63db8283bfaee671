"""Check that permanent responses and cohorts are constant for life, whatever the calendar and
the app do.

Reports without a second round are the permanent responses themselves, so one that is drawn again
shows in a single report. Devices live through silent years, months of silent periods that `no_data`
fills, changing values, versions of the app that declare other things, and clocks that go back.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Final

from decoder.grid_cells import cell_centre
from privacy_audit.black_box.checks import Check, exact
from privacy_audit.black_box.expected_answers import ExpectedReport, expected
from privacy_audit.black_box.lives import NOTHING, Event, SeenReport, Step, Value, WholeLife
from privacy_audit.black_box.power import one_of
from privacy_audit.black_box.scenarios import disjoint, values_of
from privacy_audit.black_box.shown_metrics import exchanged, without_second_round
from privacy_audit.black_box.trials import ClientSource
from rappor_core.calendar import PERIOD_DAYS, day_of
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

BOX: Final = "calendars"
DEVICES = 16  # of each calendar
GAPS = (0, 1, 2, 6, 7, 8, 13, 27, 28, 29, 30, 31, 32, 59, 60, 61, 89, 90, 91, 92, 120, 150, 181,
        182, 183, 184, 273, 304, 364, 365, 366, 367, 399, 400, 401, 402, 500, 548, 729, 730, 731,
        732, 800, 1000, 1095, 1096, 1460, 1461, 1462, 2000)  # fmt: skip
FILLED = 450  # days on which an app is opened again and again, and records now and then
OPENED = 5  # days from one opening to the next there
RECORDED = 25  # days from one record to the next
LONGEST = max(GAPS)
CALENDARS = ("years of silence", "a year of daily use or silence", "values that change",
             "versions of the app", "a clock that goes back")  # fmt: skip


def left_out(metric: Metric, *, upkeep: bool) -> str:
    """The reason why a metric's responses are not followed through a calendar; "" if they are."""
    if not metric.params.mechanism.has_permanent_round:
        return "it has no permanent response"
    if metric.max_reports is not None and metric.kind == "discover":
        return "it has few reports for life"
    if metric.location is not None and (not upkeep or metric.location.pairs):
        return "there are no lives with its places"
    return "" if upkeep or not metric.rules.collected else "the protocol of --command has no upkeep"


def calendar_checks(source: ClientSource, name: str, *, upkeep: bool) -> Iterator[Check]:
    """Yield the checks of one declared metric over all calendars. Raises AuditedClientError."""
    for calendar in CALENDARS:
        some = {m.name: _unlimited(m, calendar) for m in source.file().parts(name)}
        shown = exchanged(MetricsFile(some), without_second_round)
        parts = shown.parts(name)
        if (calendar == CALENDARS[1] or calendar == CALENDARS[3]) and not upkeep:
            continue
        if calendar == CALENDARS[4] and (parts[0].location or parts[0].rules.collected):
            continue  # such a device forgets what it collects: nothing is answered twice
        steps = [_steps(parts[0], calendar) for _ in range(DEVICES)]
        versions = _versions(shown) if calendar == CALENDARS[3] else ()
        lives = [
            WholeLife(
                os.urandom(32),
                tuple(
                    Event(name, day, value, i % (1 + len(versions)))
                    for i, (day, value) in enumerate(one)
                ),
            )
            for one in steps
        ]
        with ClientSource(compiled_text(shown), source.command).started() as client:
            seen = client.live(lives, versions)
        yield _check(parts, calendar, steps, seen)


def _unlimited(metric: Metric, calendar: str) -> Metric:
    """Without a limit on reports, which would end most calendars."""
    if metric.location is not None or metric.rules.collected or metric.kind == "discover":
        return metric
    no_data = None if calendar == CALENDARS[4] else metric.no_data
    return metric.replace(max_reports=None, no_data=no_data)


def _steps(metric: Metric, calendar: str) -> tuple[Step, ...]:
    draw = Random(os.urandom(16))
    start = day_of(metric.expires) - LONGEST - 2 - draw.randrange(1500)
    a, b = _two(metric)
    unit = PERIOD_DAYS[metric.period]
    if calendar == CALENDARS[1]:
        filled = metric.no_data is not None or metric.location is not None or metric.rules.collected
        opened = range(start, start + FILLED, OPENED if filled else 1)
        found = [(day, NOTHING if filled and (day - start) % RECORDED else a) for day in opened]
    elif calendar == CALENDARS[4]:
        back = [day for gap in GAPS[::3] for day in (start + gap + 40 * unit, start + gap)]
        found = [(day, a) for day in back]
    else:
        values = (a, b) if calendar == CALENDARS[2] else (a, a)
        found = [(start + gap, values[i % 3 == 2]) for i, gap in enumerate(GAPS)]
    return (*found, (found[-1][0] + unit, NOTHING))


def _two(metric: Metric) -> tuple[Value, Value]:
    """Two values that a device may memoise."""
    if metric.location is not None:
        grid = metric.location.grid
        cells = grid.cells(grid.finest)
        return cell_centre(grid, cells[0]), cell_centre(grid, cells[-1])
    if metric.kind == "number" and metric.details.of_period == "count":
        return 1.0, NOTHING
    return disjoint(metric, values_of(metric))


def _versions(file: MetricsFile) -> tuple[MetricsFile, ...]:
    """Of the app: other words and dates; another metric beside it; and both."""
    said = {
        name: m.replace(description="said otherwise", owner="b@example.org", min_reports=2_000,
                        expires=m.expires + timedelta(days=30))
        for name, m in file.metrics.items()
    }  # fmt: skip
    first = next(iter(file.metrics.values()))
    other = {
        "audit-other" + m.name.removeprefix(m.base_name): m.replace(
            name="audit-other" + m.name.removeprefix(m.base_name)
        )
        for m in file.parts(first.base_name)
    }
    return (
        MetricsFile(said), MetricsFile({**other, **file.metrics}), MetricsFile({**said, **other}),
    )  # fmt: skip


def _check(
    parts: tuple[Metric, ...],
    calendar: str,
    steps: list[tuple[Step, ...]],
    seen: list[list[SeenReport]],
) -> Check:
    by_name = {metric.name: metric for metric in parts}
    redrawn = moved = total = 0
    for life, reports in zip(steps, seen, strict=True):
        if not reports:
            continue
        moved += len({report.cohort for report in reports}) > 1
        shown = by_name[reports[0].metric]
        wanted = {}
        if calendar != CALENDARS[4]:
            answers = expected(parts, shown, reports[0].cohort, life)
            wanted = {(one.metric, one.day): one for one in answers}
        responses: dict[object, set[bytes]] = defaultdict(set)
        for report in reports:
            answer: ExpectedReport | None = wanted.get((report.metric, report.day))
            if answer is None or answer.bits is not None:
                responses["" if answer is None else answer.bits].add(report.bits)
                total += 1
        redrawn += any(len(shown) > 1 for shown in responses.values())
    wrong = (
        f"{redrawn} of {len(seen)} devices answered one value with two responses" if redrawn else ""
    )
    wrong += f"; {moved} changed their cohort" if moved else ""
    return exact(
        parts[0].base_name, f"responses and cohorts stay the same through {calendar}", BOX,
        wrong.removeprefix("; "),
        one_of(len(seen), f"devices, over {total // max(len(seen), 1)} reports each"),
    )  # fmt: skip
