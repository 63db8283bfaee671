"""What a reviewer should know of a pair metric. Not needed on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

Z = 1.96
USELESS = 0.25  # half-width of the interval of a margin, above which the table says little


def findings(metric: Metric, population: int | None) -> Iterator[tuple[str, str]]:
    """Levels and messages. population: devices that report in a period, where it is known."""
    pair, cap = metric.details, metric.max_memoized_values
    first, second = pair.of
    reserved = len({metric.fallback, metric.no_data} - {None})
    if cap < pair.num_pairs:
        free = cap - reserved
        yield (
            "note",
            f"the cap counts pairs: a device that begins with one, and whose {first!r} changes x "
            f"times and {second!r} y times, needs up to x + y + 1 places, and {reserved} more for "
            f"fallback and no_data; max_memoized_values = {cap} leaves {free - 1} changes of "
            "either side together, and every later new pair is sent as the fallback",
        )
    yield (
        "note",
        f"a metric of its own: what it costs a device (epsilon {metric.lifetime_epsilon:.2f} for "
        f"life) adds to what metrics of {first!r} and {second!r} alone cost",
    )
    if population is None or not population:
        return
    params = metric.params
    noise = params.p_star * (1 - params.p_star) / (params.q_star - params.p_star) ** 2
    cell = Z * math.sqrt(noise / population)
    widest = cell * math.sqrt(max(pair.shape))
    level = "warning" if widest > USELESS else "note"
    message = (
        f"{population:,} reports: the share of a rare pair is known to about {100 * cell:.2g} "
        f"points either way, that of a value of one side, a sum over the other, to about "
        f"{100 * widest:.2g}"
    )
    if level == "warning":
        message += "; use shorter lists, a larger epsilon, or a longer window"
    yield level, message
