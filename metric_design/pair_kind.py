"""The design of metrics of kind `pair`: their review and types."""

import math
from collections.abc import Iterator

from metric_design.kind_design import KindDesign, Level
from rappor_core.metrics.metric import Metric

Z = 1.96
USELESS = 0.25  # Half-width of a margin's interval above which the table is of little use


class PairDesign(KindDesign):
    """The design of pair metrics."""

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:
        """Yield findings on the cap, on the cost alongside other metrics, and on a cell's error."""
        pair, cap = metric.details, metric.max_memoized_values
        first, second = pair.of
        reserved = len({metric.fallback, metric.no_data} - {None})
        if cap < pair.num_pairs:
            free = cap - reserved
            yield (
                "note",
                f"the cap counts pairs: a device that begins with one, and whose {first!r} changes "
                f"x times and {second!r} y times, needs up to x + y + 1 places, and {reserved} "
                f"more for fallback and no_data; max_memoized_values = {cap} leaves {free - 1} "
                "changes of either side together, and every later new pair is sent as the fallback",
            )
        yield (
            "note",
            f"a separate metric: what it costs a device (epsilon {metric.lifetime_epsilon:.2f} "
            f"for life) adds to what metrics of {first!r} and {second!r} alone cost",
        )
        if population is None or not population:
            return
        params = metric.params
        noise = params.p_star * (1 - params.p_star) / (params.q_star - params.p_star) ** 2
        cell = Z * math.sqrt(noise / population)
        widest = cell * math.sqrt(max(pair.shape))
        level: Level = "warning" if widest > USELESS else "note"
        message = (
            f"{population:,} reports: the share of a rare pair is known to about {100 * cell:.2g} "
            f"points either way, that of a value of one side, a sum over the other, to about "
            f"{100 * widest:.2g}"
        )
        if level == "warning":
            message += "; use shorter lists, a larger epsilon, or a longer window"
        yield level, message


PAIR = PairDesign()
