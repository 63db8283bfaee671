"""Check that what a device spends, over metrics, slots, levels and versions, stays within every
budget.

Devices record whatever they can of all metrics. Reports without a second round are the permanent
responses themselves, so that each distinct one that leaves is counted, at its price. Bounds are
the budget of the file, the person's own where the file has none, and the budget that a device
began with where a later version of the app declares a larger one or none. The other two bounds of
a person's level, and the day on which a metric expires, are tried beside them.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from client_sdk.recording.bounds import PrivacyLevel
from decoder.grid_cells import cell_centre
from privacy_audit.black_box.asked_places import asked_of_fixes
from privacy_audit.black_box.checks import Check, exact
from privacy_audit.black_box.lives import Event, SeenReport, Value, WholeLife
from privacy_audit.black_box.power import one_of
from privacy_audit.black_box.scenario import start_days
from privacy_audit.black_box.scenarios import values_of
from privacy_audit.black_box.sdk_client import SdkClient, next_version
from privacy_audit.black_box.shown_metrics import exchanged, without_second_round
from privacy_audit.black_box.trials import ClientSource
from privacy_audit.errors import client_errors
from rappor_core.calendar import MEAN_DAYS, day_of, last_day, period_number
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

BOX: Final = "budgets"
FILES = 12  # budgets that are tried: a fault shows under some of them alone, in most devices
DEVICES = 3  # of each
PERIODS = 16
VALUES = 12  # of each metric, among which a device draws
SHARES = (0.1, 0.95)  # of what all metrics may cost, between which budgets are drawn
AMPLE = 2.0  # of the same: one more file, in which the bounds of single metrics alone hold
ROUNDING = 1 + 1e-9
LEVELS = tuple(
    PrivacyLevel(max_values=values, max_reports_per_period=reports)
    for values in (2, 3, 4)
    for reports in (1, 2)
)  # of the person, tried on metrics that would give more
OFTEN = 3  # reports in a period that such metrics declare, where their kind allows it
AFTER = (-3, -2, -1, 0, 1, 2, 3, 30, 366)  # periods from the one in which a metric expires
NAMES = {
    "file": "all metrics together stay within the budget of the file",
    "person": "all metrics together stay within the person's budget, where the file has none",
    "versions": "all metrics together stay within the budget that the device began with, "
                "through versions of the app that declare more or none",
}  # fmt: skip


class Spent(NamedTuple):
    """What one device spent. nats: at least what its reports cost. budget: that it had. wrong:
    other bounds that it broke, in words."""

    nats: float
    budget: float
    wrong: tuple[str, ...]


def budget_checks(source: ClientSource, names: tuple[str, ...], *, upkeep: bool) -> Iterator[Check]:
    """Check all budgets, with the metrics of these names together. Raises AuditedClientError."""
    file = source.file()
    own = [
        m for m in file.metrics.values() if m.base_name in names and _recordable(m, upkeep=upkeep)
    ]
    if not own:
        return
    shown = exchanged(MetricsFile({m.name: m for m in own}), without_second_round)
    draw = Random(os.urandom(16))
    whole = sum(m.lifetime_epsilon for m in shown.declared if math.isfinite(m.lifetime_epsilon))
    least, most = SHARES
    part = (most - least) / FILES
    for kind, text in NAMES.items():
        if kind != "file" and not upkeep:
            continue
        found: list[Spent] = []
        drawn = (least + part * (number + draw.random()) for number in range(FILES))
        for share in (*drawn, AMPLE) if source.command is None else (AMPLE,) * FILES:
            found += _run(source, shown, kind, whole * share, draw)
        if source.command is None:  # no file is read whose budget is below its metrics' caps
            yield _together(text, found)
        yield _each(kind, found)
    if upkeep:
        often = exchanged(MetricsFile({m.name: _often(m) for m in own}), without_second_round)
        held = [one for level in LEVELS for one in _under_level(often, level, draw)]
        yield _each("a person's level", held)
    yield _expiry(source, shown, draw)


def _often(metric: Metric) -> Metric:
    """With reports for a person to refuse."""
    made = metric.rules.takes_fixes or metric.rules.collected
    if made or metric.max_reports is not None:
        return metric
    return metric.replace(max_reports_per_period=max(OFTEN, metric.max_reports_per_period),
                          no_data=None)  # fmt: skip


def _under_level(file: MetricsFile, level: PrivacyLevel, draw: Random) -> list[Spent]:
    """Devices of a person who chose a level: its bounds hold where they are the smaller ones."""
    lives = [WholeLife(os.urandom(32), tuple(_events(file, draw, 1))) for _ in range(DEVICES)]
    with client_errors():
        seen = SdkClient(file, level).live(lives)
    return [_spent(file, reports, math.inf, level) for reports in seen]


def _expiry(source: ClientSource, file: MetricsFile, draw: Random) -> Check:
    """Devices that are opened, and record, before and long after their metrics expire."""
    lives = [
        WholeLife(os.urandom(32), tuple(_late_events(file, draw))) for _ in range(FILES * DEVICES)
    ]
    with ClientSource(compiled_text(file), source.command).started() as client:
        seen = client.live(lives)
    last = {metric.name: day_of(metric.expires) for metric in file.metrics.values()}
    late = [one for some in seen for one in some if one.day > last[one.metric]]
    return exact(
        "", "no metric reports a day after the one on which it expires", BOX,
        f"{late[0].metric} did, {late[0].day - last[late[0].metric]} days after ({len(late)} times)"
        if late else "",
        one_of(sum(map(bool, seen)), "devices that report before it"),
    )  # fmt: skip


def _late_events(file: MetricsFile, draw: Random) -> Iterator[Event]:
    """In the order of days, over all metrics; each first at a day on which it still reports."""
    events = []
    for metric in file.declared:
        pool, end = _pool(metric), day_of(metric.expires)
        present = period_number(metric.period, end)
        for place in AFTER:
            for day in {last_day(metric.period, present + place), *((end,) if not place else ())}:
                events.append(Event(metric.base_name, day, draw.choice(pool)))
    return iter(sorted(events, key=lambda event: event.day))


def _recordable(metric: Metric, *, upkeep: bool) -> bool:
    places = asked_of_fixes(metric)
    if places is not None:
        return upkeep and not places.pairs and places.grid.box is not None
    return upkeep or not metric.rules.collected


def _run(
    source: ClientSource, shown: MetricsFile, kind: str, budget: float, draw: Random
) -> list[Spent]:
    """Devices under one budget."""
    first = shown if kind == "person" else shown.replace(budget=budget)
    versions: tuple[MetricsFile, ...] = ()
    if kind == "versions":
        later = shown
        for metric in shown.declared:
            if not metric.rules.takes_fixes and not metric.rules.collected:
                later = next_version(later, metric.name)
        versions = (later, shown.replace(budget=2 * budget), later.replace(budget=1e5))
    lives = [
        WholeLife(os.urandom(32), tuple(_events(shown, draw, 1 + len(versions))))
        for _ in range(DEVICES)
    ]
    if source.command is None:
        level = PrivacyLevel(max_epsilon=budget) if kind == "person" else None
        with client_errors():
            seen = SdkClient(first, level).live(lives, versions)
    else:
        with ClientSource(compiled_text(first), source.command).started() as client:
            seen = client.live(lives)
    return [_spent(shown, reports, budget) for reports in seen]


def _events(file: MetricsFile, draw: Random, versions: int) -> Iterator[Event]:
    """Every period all metrics in an order by lot, most of them twice, values by lot."""
    pools = {metric.base_name: _pool(metric) for metric in file.declared}
    for number in range(PERIODS):
        version = min(versions - 1, number * versions // PERIODS)
        order = list(file.declared)
        draw.shuffle(order)
        for metric in order:
            day = start_days(metric, PERIODS)[number]
            value = draw.choice(pools[metric.base_name])
            for _ in range(draw.choice((1, metric.max_reports_per_period + 1))):
                yield Event(metric.base_name, day, value, version)


def _pool(metric: Metric) -> list[Value]:
    places = asked_of_fixes(metric)
    if places is not None:
        grid = places.grid
        return [cell_centre(grid, cell) for cell in grid.cells(grid.finest)[:VALUES]]
    if metric.kind == "number" and metric.details.of_period == "count":
        return [1.0]
    return list(values_of(metric))[:VALUES]


def _spent(
    file: MetricsFile, reports: list[SeenReport], budget: float, level: PrivacyLevel | None = None
) -> Spent:
    """At least: two answers whose responses are alike are counted as one."""
    by_line: dict[str, list[SeenReport]] = defaultdict(list)
    for report in reports:
        by_line[report.metric.partition("/")[0]].append(report)
    total, wrong, own_level = 0.0, [], level or PrivacyLevel()
    for metric in file.declared:
        own = by_line[metric.base_name]
        responses = len({report.bits for report in own})
        by_values = responses * metric.params.epsilon_infinity if responses else 0.0
        by_reports = math.inf if metric.max_reports is None else len(own) * metric.epsilon_one
        cost = min(by_values, by_reports)
        total += cost if math.isfinite(cost) else 0.0
        most = min(metric.max_permanent_responses, own_level.max_values)
        if responses > most and metric.params.mechanism.has_permanent_round:
            wrong.append(f"{metric.base_name}: {responses} responses, at most {most}")
        if metric.max_reports is not None and len(own) > metric.max_reports:
            wrong.append(
                f"{metric.base_name}: {len(own)} reports for life, at most {metric.max_reports}"
            )
        wrong += _too_often(metric, own, own_level)
    return Spent(total, budget, tuple(wrong))


def _too_often(metric: Metric, own: list[SeenReport], level: PrivacyLevel) -> Iterator[str]:
    """Of a window less than one period's tolerance is allowed: months differ."""
    place = metric.location
    if place is not None and metric.spaced:
        blocks = place.turn == "fresh"
        days = sorted(report.day for report in own)
        least = 0 if blocks else int((place.window - 0.5) * MEAN_DAYS[metric.period])
        if any(b - a < least for a, b in pairwise(days)):
            yield f"{metric.base_name}: two reports within a window"
        return
    most = Counter((report.metric, period_number(metric.period, report.day)) for report in own)
    if most and max(most.values()) > min(
        metric.max_reports_per_period, level.max_reports_per_period
    ):
        yield f"{metric.base_name}: {max(most.values())} reports in a period"


def _together(text: str, found: list[Spent]) -> Check:
    over = [one for one in found if one.nats > one.budget * ROUNDING]
    worst = max(found, key=lambda one: one.nats / one.budget)
    return exact(
        "", text, BOX,
        f"{len(over)} of {len(found)} devices spent more: {worst.nats:.2f} of {worst.budget:.2f}"
        if over else "",
        one_of(len(found), f"devices, that spent up to {worst.nats / worst.budget:.0%} of it"),
    )  # fmt: skip


def _each(kind: str, found: list[Spent]) -> Check:
    """Bounds of single metrics."""
    wrong = [text for one in found for text in one.wrong]
    return exact(
        "", f"each metric stays within its own bounds on responses and reports ({kind})", BOX,
        f"{wrong[0]} ({len(wrong)} times)" if wrong else "", one_of(len(found), "devices"),
    )  # fmt: skip
