"""Check what a device of numbers keeps over periods: when it gives its one answer, and its moved
cut.

Mode `once` answers in a period drawn uniformly, by no value. With `ask = "mean"` the cut is the
same in every period, or a number that never changes would be told of more than once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.derivations import BOX
from privacy_audit.black_box.lives import NOTHING, Life, SeenReport, Value
from privacy_audit.black_box.number_scenarios import (
    left_out_of_devices,
    numbers_of,
    within_a_stratum,
)
from privacy_audit.black_box.power import chance_off, one_of
from privacy_audit.black_box.scenario import DEVICE_PERIODS, start_days
from privacy_audit.black_box.trials import ClientSource
from privacy_audit.black_box.turns import uniform_check
from rappor_core.calendar import period_number
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric

DEVICES = 400


def kept_over_periods(source: ClientSource, metric: Metric) -> Iterator[Check]:
    """Yield all checks of this module that fit the metric. Raises AuditedClientError."""
    if metric.kind != "number" or left_out_of_devices(metric):
        return
    if metric.details.mode == "once":
        if metric.details.spread > 1:
            yield from period_checks(metric, asked_when(source, metric))
    elif metric.details.of_period != "count" and within_a_stratum(metric) is not None:
        yield cut_check(metric, first_and_last(source, metric))


def asked_when(source: ClientSource, metric: Metric) -> list[tuple[int, ...]]:
    """For each device and two numbers, the periods (modulo `spread`) in which it reported.

    Devices are in memory; the same secrets answer for the lowest and for the highest number.
    Raises AuditedClientError.
    """
    secrets = [os.urandom(32) for _ in range(DEVICES)]
    days = start_days(metric, metric.details.spread + 1)
    pool = numbers_of(metric)
    found = [
        _recorded(source, metric, [_life(secret, days, value) for secret in secrets])
        for value in (pool[0], pool[-1])
    ]
    spread = metric.details.spread
    return [
        tuple(period_number(metric.period, report.day) % spread for report in (*low, *high))
        for low, high in zip(*found, strict=True)
    ]


def _life(secret: bytes, days: list[int], value: Value) -> Life:
    return Life(secret, (*((day, value) for day in days[:-1]), (days[-1], NOTHING)))


def first_and_last(source: ClientSource, metric: Metric) -> list[tuple[bytes, bytes]]:
    """The bits of the first and the last report of devices that hold one number in all periods.

    The number lies within a stratum, so that no device moves its cut across it.
    Raises AuditedClientError.
    """
    found = within_a_stratum(metric)
    assert found is not None  # noqa: S101 (asked by the caller)
    days = start_days(metric, DEVICE_PERIODS + 1)
    lives = [_life(os.urandom(32), days, found[1][0]) for _ in range(DEVICES)]
    return [(some[0].bits, some[-1].bits) for some in _recorded(source, metric, lives) if some]


def _recorded(source: ClientSource, metric: Metric, lives: list[Life]) -> list[list[SeenReport]]:
    with source.started() as client:
        return client.record(metric.name, lives)


def cut_check(metric: Metric, told: list[tuple[bytes, bytes]]) -> Check:
    """Check that two answers to one question have the same permanent response. told: as of
    `first_and_last`."""
    mechanism, others = metric.params.mechanism, metric.params.num_bits - 1
    expected = (mechanism.p2**2 + others * mechanism.q2**2) / PROBABILITY_SCALE**2
    same = sum(first == last for first, last in told)
    p_value = bounds.count_p_value(same, len(told), expected)
    return test(
        metric.name, "a device keeps its cut over periods", BOX, p_value,
        f"{same:,} of {len(told):,} devices gave the same first and last answer, "
        f"{expected * len(told):,.0f} expected",
        chance_off(expected, len(told), "of the share of equal answers"),
    )  # fmt: skip


def period_checks(metric: Metric, told: list[tuple[int, ...]]) -> Iterator[Check]:
    """Check that the period of a device's one answer is uniform and does not depend on its
    number. told: as of `asked_when`."""
    moved = sum(len(periods) != 2 or len(set(periods)) > 1 for periods in told)
    yield exact(
        metric.name, "the period of the one answer does not depend on the number", BOX,
        f"{moved:,} of {len(told):,} devices answered in another" if moved else "",
        one_of(len(told), "devices"),
    )  # fmt: skip
    first = [periods[0] for periods in told if periods]
    claim = "the period of the one answer is uniform"
    yield uniform_check(metric.name, claim, first, metric.details.spread)
