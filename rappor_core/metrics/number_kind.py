"""The metric kind `number`: one number per period, which devices compare with public thresholds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from rappor_core.errors import ParameterError, ValueRefusedError, check_whole, shown
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.keys import (
    ALWAYS,
    EPSILON,
    EPSILON_KEYS,
    FLAG,
    NUM_COHORTS,
    NUMBERS,
    TEXT,
    WHOLE,
    Key,
)
from rappor_core.metrics.kinds import Kind, refuse_field, wrong_type
from rappor_core.metrics.number import (
    Number,
    NumberMode,
    as_edges,
    check_rising,
    made_edges,
    whole_edges,
)
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

WHAT = "a finite number"
LOWEST = -1e300  # below every edge
_OF_PERIOD = {
    "sum": "the sum of",
    "count": "how often something is counted in",
    "mean": "the mean of",
    "median": "the median of",
    "max": "the largest number of",
    "last": "the last number of",
}

MAX_BINS = 500
DEFAULT_BINS = {"edges": 32, "mean": 8}
DEFAULT_REPLICATES = 4  # cohorts per question; two or more reveal the effect of memoized noise
SYMBOLS_BY_EPSILON = ((1.5, 4), (3.0, 6), (math.inf, 8))  # `once`: (maximum epsilon, symbols)
EDGE_KEYS = {"scale", "from", "to", "bins"}
NUMBER_KEYS = (
    Key("unit", TEXT, None, "Unit to display: `ms`, `EUR`, `crashes`.", ALWAYS),
    Key("of_period", TEXT, None, "`sum`, `count`, `mean`, `median`, `max` or `last`.", ALWAYS),
    Key("edges", NUMBERS, None, "A rising list, or `{ scale, from, to, bins }`.", ALWAYS),
    Key("whole", FLAG, None, "Whole numbers only; always true for `count`."),
    Key("ask", TEXT, "edges", "`edges` for curve and quantiles, `mean` for an unbiased mean."),
    Key("none", TEXT, None, "How to report a period without a number: `apart` or `zero`.", ALWAYS),
    Key("mode", TEXT, None, "`memo` (a report each period) or `once` (one ever).", ALWAYS),
    Key("spread", WHOLE, 1, "In mode `once`: periods over which devices spread their report."),
    Key("num_symbols", WHOLE, None, "In mode `once`: number of answers (default: by epsilon)."),
    NUM_COHORTS.replace(meaning="A multiple of the question sets; default: 4.", needed_when=""),
    EPSILON.replace(needed_when="`mode` is `once`"),
    *(key.replace(needed_when="`mode` is `memo`") for key in EPSILON_KEYS),
)


class NumberKind(Kind):
    """The metric kind whose value is a finite number (duration, counter, size), or no data."""

    name = "number"
    encodings = ("ordered",)
    keys = NUMBER_KEYS
    details = Number
    collected = True
    takes_numbers = True
    client_part = "numbers"

    def fields(self, table: MetricTable) -> Iterator[dict[str, Any]]:
        """Yield the fields of the metric; the shape of reports follows from the edges."""
        declared = table.declared()
        if table.get("mode") == "once":
            if table.get("max_reports") not in (None, 1):
                table.refuse("max_reports", "must be 1 for mode 'once'")
            declared["max_reports"] = 1
        number = _number(table)
        symbols, mechanism = _noise(table, number)
        cohorts = table.get("num_cohorts")
        if cohorts is None:
            cohorts = DEFAULT_REPLICATES * number.stride(symbols)
        params = RapporParams(symbols, 1, cohorts, mechanism, "ordered")
        yield {**declared, "params": params, "details": number, "max_memoized_values": symbols}

    def check(self, metric: Metric) -> None:
        """Require one report per period, equally many cohorts per question, and matching noise."""
        number = metric.details
        if metric.max_reports_per_period != 1:
            refuse_field(metric, "max_reports_per_period", "is not 1: one number a period")
        if metric.fallback is not None:
            refuse_field(metric, "fallback", "has no use: the cap is never reached")
        if metric.max_memoized_values != metric.params.num_bits:
            refuse_field(metric, "max_memoized_values", "is not the number of symbols")
        self._check_noise(metric, number)
        stride, cohorts = self.cohort_step(metric), metric.params.num_cohorts
        if cohorts % stride:
            why = (
                f"have num_cohorts = {cohorts}, not a multiple of {stride}: as many for each "
                f"of {len(number.asked)} questions; use {stride * max(2, round(cohorts / stride))}"
            )
            refuse_field(metric, "params", why)

    def _check_noise(self, metric: Metric, number: Number) -> None:
        memo = number.mode == "memo"
        if memo != metric.params.mechanism.has_permanent_round:
            why = "do not go with the mode: only 'memo' has a permanent response"
            refuse_field(metric, "params", why)
        if memo and metric.params.num_bits != 2:
            refuse_field(metric, "params", "need two symbols in mode 'memo'")
        if not memo and metric.max_reports != 1:
            refuse_field(metric, "max_reports", "is not 1, as mode 'once' asks")
        if metric.params.num_bits - 1 > len(number.asked):
            why = f"have more symbols than the {len(number.asked)} questions have answers"
            refuse_field(metric, "params", why)

    def cohort_step(self, metric: Metric) -> int:
        """Return the number that must divide `num_cohorts`: the number of question sets."""
        return int(metric.details.stride(metric.params.num_bits))

    def fewer_cohorts(self, metric: Metric) -> str:
        """Return the advice to declare fewer edges, which need fewer cohorts."""
        what = "bins" if metric.details.scale != "list" else "edges"
        num_questions, cohorts = len(metric.details.asked), self.cohort_step(metric)
        return f"fewer {what} (its {num_questions} questions take {cohorts} cohorts)"

    def turns(self, metric: Metric) -> int:
        """Return the number of periods over which devices spread their only report."""
        return int(metric.details.spread)

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Return the edges from the middle outward, because most numbers are near the middle."""
        edges = metric.details.edges
        return sorted(edges, key=lambda edge: abs(edges.index(edge) - len(edges) // 2))

    def sums(self, metric: Metric) -> bool:
        """Return whether a period's number is a sum."""
        return bool(metric.details.of_period == "sum")

    def jittered(self, metric: Metric) -> bool:
        """Return whether a secret device constant shifts thresholds (`ask = "mean"`)."""
        return bool(metric.details.ask == "mean")

    def num_values(self, metric: Metric) -> int | None:
        """Return the number of symbols that a device can report."""
        return metric.params.num_bits

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Return numbers that together produce every answer in every cohort; None means no data.

        Return no numbers in mode `once`, which memoizes nothing.
        """
        number = metric.details
        if number.mode == "once":
            return ()
        return (None, LOWEST if number.negative else 0.0, *number.edges)

    def number(self, metric: Metric, value: object) -> float | None:
        """Return a recorded value as a finite double; None means no data."""
        if value is None:
            return None
        if type(value) not in (int, float):
            raise wrong_type(metric, value, "an int or a float")
        try:
            number = float(value) + 0.0  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            what = "NaN" if math.isnan(number) else "an infinite or immense one"
            raise ValueRefusedError(f"metric {metric.name!r} takes {WHAT}, not {what}")
        if number < 0 and not metric.details.negative:
            raise ValueRefusedError(
                f"metric {metric.name!r} takes no negative numbers: none of its edges is below 0"
            )
        if metric.details.whole and not number.is_integer():
            raise ValueRefusedError(f"metric {metric.name!r} takes whole numbers alone")
        return number

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """Return what is measured and what a device reports of it, as text, and the edges."""
        number = metric.details
        edges = tuple(f"{edge:g}" for edge in number.edges)
        answer = (
            "only whether it reaches one threshold, which chance has given to it"
            if number.mode == "memo"
            else "once, between which of a few thresholds it lies"
        )
        apart = ", or that there was none" if number.none == "apart" else ""
        moved = ", each moved by a secret of the device" if number.ask == "mean" else ""
        value = f"{_OF_PERIOD[number.of_period]} a {metric.period}, in {number.unit}"
        return f"{value}. A device says {answer}{apart}. The thresholds{moved}", edges


def _number(table: MetricTable) -> Number:
    of_period, ask, whole = table["of_period"], table["ask"], table.get("whole")
    whole = of_period == "count" if whole is None else whole
    scale, edges = _edges(table, ask)
    if whole is True and ask == "edges":
        edges = whole_edges(edges)
    mode = cast(NumberMode, table["mode"])
    return Number(
        unit=table["unit"],
        of_period=of_period,
        edges=edges,
        scale=scale,  # type: ignore[arg-type]  # checked by Number
        whole=whole,
        ask=ask,
        none=table["none"],
        mode=mode,
        spread=table["spread"],
    )


def _edges(table: MetricTable, ask: object) -> tuple[str, tuple[float, ...]]:
    """Return the scale and the edges, declared as a list or as a table that generates them."""
    edges = table["edges"]
    if isinstance(edges, list):
        listed = as_edges(edges)
        check_rising(listed)
        return "list", listed
    if not isinstance(edges, dict):
        table.refuse("edges", "is not a list of numbers, nor { scale, from, to, bins }")
    table.refuse_unknown_part("edges", EDGE_KEYS)
    for key in ("scale", "from", "to"):
        if key not in edges:
            raise ParameterError(f"edges: {key} is missing")
    scale, bins = edges["scale"], edges.get("bins", DEFAULT_BINS.get(str(ask), 1))
    if scale not in ("linear", "log"):
        raise ParameterError(
            f"edges: scale = {shown(scale)} is not linear or log; or give edges as a list"
        )
    first, last = as_edges([edges["from"], edges["to"]])
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        table.refuse("edges", "do not rise from `from` to `to`")
    if scale == "log" and first <= 0:
        raise ParameterError(
            f"edges: from = {shown(first)} is not above 0, where a scale of logarithms begins"
        )
    check_whole("edges: bins", bins, 1, MAX_BINS)
    return scale, made_edges(scale, first, last, bins)


def _noise(table: MetricTable, number: Number) -> tuple[int, TwoRoundMechanism]:
    """Return the number of symbols g, and the mechanism of the declared mode."""
    if number.mode == "memo":
        table.refuse_any(("epsilon", "num_symbols"), "goes with mode = 'once'")
        pair = table.positive("epsilon_infinity"), table.positive("epsilon_one")
        return 2, TwoRoundMechanism.symbols(2, *pair)
    table.refuse_any(
        ("epsilon_infinity", "epsilon_one"),
        "goes with mode = 'memo'; give epsilon, of the one report",
    )
    epsilon = table.positive("epsilon")
    usual = next(g for most, g in SYMBOLS_BY_EPSILON if epsilon <= most)
    symbols = table.get("num_symbols")
    if symbols is None:
        symbols = min(usual, len(number.asked) + 1)
    return symbols, TwoRoundMechanism.one_symbol(symbols, epsilon)


NUMBER = NumberKind()
