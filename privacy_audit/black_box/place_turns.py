"""When a device of places answers: fresh turns of two blocks have nothing in common."""

from __future__ import annotations

import os
from collections.abc import Iterator

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, test
from privacy_audit.black_box.derivations import BOX
from privacy_audit.black_box.lives import Life
from privacy_audit.black_box.place_scenarios import a_life
from privacy_audit.black_box.power import chance_off
from privacy_audit.black_box.scenarios import why_not
from privacy_audit.black_box.trials import ClientSource
from rappor_core.calendar import period_number
from rappor_core.metrics.metric import Metric

DEVICES = 200
BLOCKS = 2


def turn_checks(source: ClientSource, metric: Metric) -> Iterator[Check]:
    """Whether a turn tells a device's next one. Raises AuditedClientError."""
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
    same = sum(first == second for first, second in turns)
    expected = 1 / (place.window * len(slots))
    p_value = bounds.count_p_value(same, len(turns), expected)
    yield test(
        metric.base_name, "fresh turns of two blocks are equal only by chance", BOX, p_value,
        f"{same:,} of {len(turns):,} devices answered at the same turn of both, "
        f"{expected * len(turns):.1f} expected",
        chance_off(expected, len(turns), "of the share of equal turns"),
    )  # fmt: skip
