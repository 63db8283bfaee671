"""The design of `pair` metrics: their review and types."""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any

from metric_design.kind_design import KindDesign, Level, Question
from metric_design.list_design import ALPHA, LISTED, POWER, encoding_of, held_values, mechanisms
from rappor_core.errors import ParameterError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.pair_kind import Pair
from rappor_core.text import counted

Z = 1.96
USELESS = 0.25  # Half-width of a margin's interval above which the table is of little use


class PairDesign(KindDesign):
    """The design of pair metrics, planned as experiments whose first side is the arm."""

    asks = "error"
    options = ("values",)

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield each mechanism, with the last pair as the fallback."""
        for noise in mechanisms(question, encoding_of(question), 1):
            cap = 1 if "max_reports" in noise else held_values(question)
            yield {**noise, "max_memoized_values": cap, **_fallback(question.given)}

    def mode(self, table: Mapping[str, Any]) -> str | None:
        """Return `once` for one report per lifetime, otherwise `memo`."""
        return LISTED.mode(table)

    def precision(self, metric: Metric, devices: float) -> float:
        """Return the smallest difference between two arms that is detected 8 times in 10.

        The arms are equally large, an answer has a share of one half, and the level is divided by
        the number of differences. The noise of an arm's own share is included.
        """
        params, (arms, answers) = metric.params, metric.details.shape
        shared = 1 / params.num_bits if params.scheme.hashed else 0.0  # chance of the same bit
        scale = ((params.q_star - params.p_star) * (1 - shared)) ** 2
        unset = params.p_star * (1 - params.p_star) / scale  # noise of a bit that no device sets
        added = params.q_star * (1 - params.q_star) / scale - unset  # if every device sets it
        noise = answers * unset + added / arms
        variance = (noise * arms**2 + arms) / (4 * devices)  # of a share within an arm
        normal, tests = NormalDist(), (arms - 1) * answers
        scores = normal.inv_cdf(1 - ALPHA / (2 * tests)) + normal.inv_cdf(POWER)
        return scores * math.sqrt(2 * variance)

    def finding(self, metric: Metric, precision: float, question: Question) -> str:  # noqa: ARG002
        """Return, as text, the smallest difference that the metric detects at this precision."""
        return (
            f"detect a difference of {100 * precision:.3g} points between two arms, 8 times in 10"
        )

    def supposed(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Return, as text, the assumptions of `precision`."""
        arms, answers = metric.details.shape
        return (
            f"{arms} arms of equal size by {metric.details.of[0]!r}, an answer with a share of one "
            f"half, and a correction for {(arms - 1) * answers} differences"
        )

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:
        """Yield findings on the cap, on the cost alongside other metrics, and on a cell's error."""
        pair, cap = metric.details, metric.max_memoized_values
        first, second = pair.of
        reserved = len({metric.fallback, metric.no_data} - {None})
        if cap < pair.num_pairs:
            changes = counted(cap - reserved - 1, "change")
            yield (
                "note",
                f"the cap counts pairs: a device whose {first!r} changes x times and {second!r} "
                f"y times needs up to x + y + 1 places, plus {reserved} for fallback and "
                f"no_data; max_memoized_values = {cap} allows {changes} in total, and each "
                "later new pair is sent as the fallback",
            )
        yield (
            "note",
            f"a separate metric: its cost to a device (epsilon {metric.lifetime_epsilon:.2f} "
            f"for life) adds to the cost of separate metrics of {first!r} and {second!r}",
        )
        if population is None or not population:
            return
        params = metric.params
        noise = params.p_star * (1 - params.p_star) / (params.q_star - params.p_star) ** 2
        cell = Z * math.sqrt(noise / population)
        widest = cell * math.sqrt(max(pair.shape))
        level: Level = "warning" if widest > USELESS else "note"
        message = (
            f"{population:,} reports: the share of a rare pair is known to about "
            f"{100 * cell:.2g} points either way, and the share of a value of one side (a sum "
            f"over the other) to about {100 * widest:.2g}"
        )
        if level == "warning":
            message += "; use shorter lists, a larger epsilon, or a longer window"
        yield level, message


def _fallback(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the last pair as the fallback; or nothing if the two lists are invalid."""
    try:
        names, lists = table["of"], table["values"]
        return {"fallback": Pair(tuple(names), tuple(lists[name] for name in names)).texts()[-1]}
    except (ParameterError, LookupError, TypeError):  # the metric's reader reports the mistake
        return {}


PAIR = PairDesign()
