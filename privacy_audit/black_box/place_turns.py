"""Check when a device answers about places: turns in eight blocks must be independent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from privacy_audit.black_box.checks import Check
from privacy_audit.black_box.lives import Life
from privacy_audit.black_box.place_scenarios import a_life
from privacy_audit.black_box.scenarios import why_not
from privacy_audit.black_box.trials import ClientSource
from privacy_audit.black_box.turns import independence_check
from rappor_core.calendar import period_number
from rappor_core.metrics.metric import Metric

DEVICES = 100
BLOCKS = 8


def turn_checks(source: ClientSource, metric: Metric) -> Iterator[Check]:
    """Check that a device's turn in one block says nothing about its turn in any later one.

    Raises AuditedClientError.
    """
    place = metric.location
    blocks = min(BLOCKS, metric.max_reports or BLOCKS)
    if place is None or place.turn != "fresh" or blocks < 2:
        return
    if why_not(metric, upkeep=source.command is None):
        return
    steps = a_life(metric, blocks * place.window)
    lives = [Life(os.urandom(32), steps) for _ in range(DEVICES)]
    with source.started() as client:
        seen = client.record(metric.base_name, lives)
    slots = [slot.name for slot in place.slots]
    turns = [
        [(report.metric.partition("/")[2], period_number(metric.period, report.day) % place.window)
         for report in some] for some in seen if len(some) == blocks
    ]  # fmt: skip
    apart = [
        independence_check(
            metric.base_name, f"fresh turns of {blocks} blocks are equal only by chance",
            [one[i] == one[i + gap] for one in turns for i in range(blocks - gap)],
            1 / (place.window * len(slots)),
        )
        for gap in range(1, blocks)
    ]  # fmt: skip
    worst = min(apart, key=lambda check: check.p_value)
    yield replace(worst, p_value=min(1.0, worst.p_value * len(apart)))
