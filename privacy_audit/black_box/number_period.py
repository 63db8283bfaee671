"""When a device gives the one answer of mode `once`: in a period drawn uniformly, by no value."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.derivations import BOX
from privacy_audit.black_box.errors import client_errors
from privacy_audit.black_box.lives import NOTHING, Life, Value
from privacy_audit.black_box.noise import chi_square
from privacy_audit.black_box.number_scenarios import left_out_of_devices, numbers_of
from privacy_audit.black_box.scenario import start_days
from privacy_audit.black_box.trials import Source
from rappor_core.calendar import period_number
from rappor_core.metrics.metric import Metric

DEVICES = 400


def asked_when(source: Source, metric: Metric) -> list[tuple[int, ...]]:
    """Of each device under two numbers, in which periods modulo `spread` it reported.

    Devices are in memory; the same secrets answer for the lowest and for the highest number.
    Raises ClientError.
    """
    secrets = [os.urandom(32) for _ in range(DEVICES)]
    days = start_days(metric, metric.details.spread + 1)
    pool = numbers_of(metric)
    client = source.open()
    try:
        with client_errors():
            found = [
                client.record(metric.name, [_life(secret, days, value) for secret in secrets])
                for value in (pool[0], pool[-1])
            ]
    finally:
        client.close()
    spread = metric.details.spread
    return [
        tuple(period_number(metric.period, report.day) % spread for report in (*low, *high))
        for low, high in zip(*found, strict=True)
    ]


def _life(secret: bytes, days: list[int], value: Value) -> Life:
    return Life(secret, (*((day, value) for day in days[:-1]), (days[-1], NOTHING)))


def is_asked(metric: Metric) -> bool:
    """Whether a metric has a period that devices draw, and lives in which to look for it."""
    number = metric.kind == "number" and metric.details.mode == "once"
    return number and metric.details.spread > 1 and not left_out_of_devices(metric)


def period_checks(metric: Metric, told: list[tuple[int, ...]]) -> Iterator[Check]:
    """told: as of `asked_when`."""
    moved = sum(len(periods) != 2 or len(set(periods)) > 1 for periods in told)
    yield exact(
        metric.name, "the period of the one answer does not depend on the number", BOX,
        f"{moved:,} of {len(told):,} devices answered in another" if moved else "",
    )  # fmt: skip
    first = [periods[0] for periods in told if periods]
    counts = np.bincount(first, minlength=metric.details.spread).astype(float)
    p_value, _ = chi_square(counts, np.full(len(counts), counts.sum() / len(counts)))
    yield test(
        metric.name, "the period of the one answer is uniform", BOX, p_value,
        f"{counts.min():,.0f} to {counts.max():,.0f} devices in each of {len(counts)} periods",
    )  # fmt: skip
