"""Check when a device answers about places: turns in two blocks must be independent."""

from __future__ import annotations

import os
from collections.abc import Iterator

from privacy_audit.black_box.checks import Check
from privacy_audit.black_box.lives import Life
from privacy_audit.black_box.place_scenarios import a_life
from privacy_audit.black_box.scenarios import why_not
from privacy_audit.black_box.trials import ClientSource
from privacy_audit.black_box.turns import independence_check
from rappor_core.calendar import period_number
from rappor_core.metrics.metric import Metric

DEVICES = 200
BLOCKS = 2


def turn_checks(source: ClientSource, metric: Metric) -> Iterator[Check]:
    """Check that a device's turn in one block says nothing about its turn in the next. Raises
    AuditedClientError."""
    place = metric.location
    if place is None or place.turn != "fresh" or why_not(metric, upkeep=source.command is None):
        return
    if metric.max_reports is not None and metric.max_reports < BLOCKS:
        return
    steps = a_life(metric, BLOCKS * place.window)
    lives = [Life(os.urandom(32), steps) for _ in range(DEVICES)]
    with source.started() as client:
        seen = client.record(metric.base_name, lives)
    slots = [slot.name for slot in place.slots]
    turns = [
        [(report.metric.partition("/")[2], period_number(metric.period, report.day) % place.window)
         for report in some] for some in seen if len(some) == BLOCKS
    ]  # fmt: skip
    yield independence_check(
        metric.base_name, "fresh turns of two blocks are equal only by chance",
        [first == second for first, second in turns], 1 / (place.window * len(slots)),
    )  # fmt: skip
