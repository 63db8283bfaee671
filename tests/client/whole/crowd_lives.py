"""The lives of a crowd of whole installations: all metrics of a file, over some weeks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from decoder.grid_cells import cell_center
from privacy_audit.black_box.scenarios import free, values_of
from rappor_core.calendar import PERIOD_DAYS, SECONDS_A_DAY, day_of
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.whole.environment import Machine
from tests.client.whole.expected_answers import Value, time_of
from tests.client.whole.observables import Crowd
from tests.client.whole.witness import Recorded, Sitting, Witnessed, WitnessTask

DEVICES = 8  # of each condition
MEAN_DELAY = 5.0 * SECONDS_A_DAY
PAD_TO = 256
BATCH_REPORTS = 3
DELIVERY = (
    ("mean_delay", MEAN_DELAY), ("pad_to", PAD_TO), ("batch_reports", BATCH_REPORTS),
    ("first_pause", 0.01),
)  # fmt: skip
REFUSED = 503, 0  # in two sittings of each life a request is answered so
OFTEN = "audit-often"  # a metric of which several reports of one day travel together
TIMES = 3
MAX_VALUES = 40  # of a list that is recorded whole
HERE, THERE = Machine("audit-host-one", "first", 0.0), Machine("audit-host-two", "second", 4e7 + 11)


def crowd_file(file: MetricsFile) -> MetricsFile:
    """The metrics file of a crowd: the given metrics but those of trips, and one more with several
    reports a day where a kind allows it.

    One fix of a sitting speaks for its hour alone, so that it is in one slot.
    """
    metrics = {m.name: _by_the_hour(m) for m in file.metrics.values() if not _of_trips(m)}
    for metric in file.declared:
        if metric.kind in ("string", "category", "boolean") and metric.max_reports is None:
            often = metric.replace(name=OFTEN, max_reports_per_period=TIMES, no_data=None)
            return file.replace(metrics={**metrics, OFTEN: often})
    return file.replace(metrics=metrics)


def _of_trips(metric: Metric) -> bool:
    """Also of flows with a lag, whose first usual cell is in the files by promise."""
    if metric.kind == "flow":
        return bool(metric.details.lag)
    return metric.location is not None and metric.location.pairs


def _by_the_hour(metric: Metric) -> Metric:
    if metric.kind == "flow":
        gap = min(metric.details.max_gap_minutes, 60)
        return metric.replace(details=metric.details.replace(max_gap_minutes=gap))
    if metric.location is None:
        return metric
    gap = min(metric.location.max_gap_minutes, 60)
    return metric.replace(location=metric.location.replace(max_gap_minutes=gap))


def lives(file: MetricsFile) -> tuple[tuple[Sitting, ...], ...]:
    """The lives of a crowd: A, B with other values than A, and one whose values change whenever
    possible."""
    declared = [metric for metric in file.declared if _pool(metric)]
    start = min(day_of(metric.expires) for metric in declared) - 120
    unit = max(PERIOD_DAYS[metric.period] for metric in declared)
    patterns = ((0, 0, 1), (2, 2, 3), (0, 1, 2))
    alone = alone_in(file)
    return tuple(tuple(_life(declared, start, unit, pattern, alone)) for pattern in patterns)


def alone_in(file: MetricsFile) -> str:
    """A metric of which one report makes one batch, and no other; "" where there is none."""
    return _single([m for m in file.declared if _pool(m)])


def withdrawn_lives(file: MetricsFile) -> tuple[tuple[Sitting, ...], ...]:
    """Two lives in which consent is withdrawn and given again: in an open client, and across two
    clients.

    One sitting is sent before it, one waits; the same values are recorded in all.
    """
    declared = [metric for metric in file.declared if _pool(metric)]
    start = min(day_of(metric.expires) for metric in declared) - 120
    unit = max(PERIOD_DAYS[metric.period] for metric in declared)
    values = tuple(_recorded(declared, 0))
    times = [time_of(start + unit * number) for number in (0, 1, 4, 6)]
    kinds: tuple[Literal["open", "closed"], ...] = ("open", "closed")
    return tuple(
        (
            Sitting(times[0], values), Sitting(times[1], values, sent=False),
            Sitting(times[2], values, withdrawn=kind), Sitting(times[3], values),
        )
        for kind in kinds
    )  # fmt: skip


def _life(
    declared: list[Metric], start: int, unit: int, pattern: tuple[int, ...], alone: str
) -> Iterator[Sitting]:
    """Sittings that are sent and some that are not, a silence, and three with one value alone."""
    some = [_recorded(declared, which) for which in (*pattern, pattern[2], pattern[0])]
    single = [recorded for recorded in some[0] if recorded[0] == alone][:1]
    days = [0, 1, 2, 3, 4]
    for number, recorded in enumerate(some):
        now = time_of(start + unit * days[number])
        refused = REFUSED[number // 2 - 1 :][:1] if number in (2, 4) else ()
        yield Sitting(now, tuple(recorded), sent=number in (0, 2, 4), refused=refused)
    for number in range(3):
        now = time_of(start + unit * (8 + 2 * number) + 30)
        yield Sitting(now, tuple(single), alone=bool(single), looked=number == 2)


def _single(declared: list[Metric]) -> str:
    for metric in declared:
        if (
            not metric.rules.takes_fixes
            and not metric.rules.collected
            and metric.max_reports is None
        ):
            return metric.name
    return ""


def _recorded(declared: list[Metric], which: int) -> list[Recorded]:
    found: list[Recorded] = []
    for metric in declared:
        pool = _pool(metric)
        value = pool[(which + which // len(pool)) % len(pool)]
        times = TIMES if metric.name == OFTEN else 1
        found += [
            (metric.base_name, pool[(which + i) % len(pool)] if times > 1 else value)
            for i in range(times)
        ]
    return found


def _pool(metric: Metric) -> list[Value]:
    if metric.rules.takes_fixes:
        grid = (metric.location or metric.details).grid
        cells = grid.cells(grid.finest)
        return [cell_center(grid, cells[place * (len(cells) - 1) // 3]) for place in range(4)]
    pool = list(free(metric, values_of(metric)))
    if metric.kind == "number" and metric.details.of_period == "count":
        return [1.0]
    if metric.kind == "number":
        return _numbers(metric, [float(value) for value in pool if isinstance(value, float)])
    return pool[:4] if len(pool) > MAX_VALUES else pool


def _numbers(metric: Metric, pool: list[float]) -> list[Value]:
    """A low one, a high one, and one a little above each.

    Lives A and B give as many answers of each kind, which the ledger counts and its files tell.
    """
    some = [value for value in pool if value] or pool
    step = 1.0 if metric.details.whole else abs(some[0]) / 200 or 0.005
    return [some[0], some[-1], some[0] + step, some[-1] + step]


def run_crowd(
    metrics: str,
    root: Path,
    run: Callable[[list[WitnessTask]], list[Witnessed]],
    file: MetricsFile,
    devices: int,
) -> Crowd:
    """Run devices under every condition and collect what was observed.

    metrics: compiled.  run: does each task in a process of its own.
    """
    a, b, changing = lives(file)
    seeds = os.urandom(32), os.urandom(32), os.urandom(32)
    few = max(1, devices // 2)
    conditions = (
        (a, devices, seeds[0], HERE, "here"), (a, devices, seeds[0], THERE, "a/longer/path"),
        (b, devices, seeds[0], HERE, "b"), (changing, few, seeds[0], HERE, "c"),
        (a, devices, seeds[1], HERE, "here"), (b, devices, seeds[2], HERE, "b"),
    )  # fmt: skip
    asked = [
        WitnessTask(metrics, str(root / where), seed, machine, (life,) * number, DELIVERY)
        for life, number, seed, machine, where in conditions
    ]
    first, second = run(asked[:4]), run(asked[4:])  # the same paths again
    return Crowd(first[0], first[1], first[2], first[3], second[0], second[1])
