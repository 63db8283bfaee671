"""The kind `number`: one number a period, compared with public cuts of the line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.kinds import Kind, refuse_field, wrong_type
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import (
    Number,
    NumberMode,
    as_edges,
    check_rising,
    made_edges,
    whole_edges,
)
from rappor_core.metrics.tables import (
    needed,
    positive,
    read_common,
    refuse,
    refuse_unknown,
    refused,
)
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.frozen import Frozen
    from rappor_core.metrics.metric import Metric

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


class NumberKind(Kind):
    """The kind of metric whose value is a finite number (duration, counter, size), or no data."""

    name = "number"
    encodings = ("ordered",)
    has_details = True
    collected = True

    def metrics(self, name: str, table: Mapping[str, Any]) -> Iterable[Metric] | None:
        """Read a whole `[metrics.NAME]` table, since the shape of reports follows from the
        edges."""
        return (number_metric(name, table),)

    def details_from_dict(self, fields: Mapping[str, Any]) -> Frozen:
        """Read the `Number` of a metric's definition."""
        return Number.from_dict(fields)

    def check(self, metric: Metric) -> None:
        """Require one report a period, cohorts that share the cuts evenly, and noise that fits
        the mode."""
        number = metric.details
        if not isinstance(number, Number):
            refuse_field(metric, "details", "are not those of a number")
        if metric.max_reports_per_period != 1:
            refuse_field(metric, "max_reports_per_period", "is not 1: one number a period")
        if metric.fallback is not None:
            refuse_field(metric, "fallback", "has no use: the cap is never reached")
        self._check_noise(metric, number)
        stride, cohorts = self.cohort_step(metric), metric.params.num_cohorts
        if cohorts % stride:
            why = (
                f"have num_cohorts = {cohorts}, which is no multiple of {stride}: as many for each "
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
        """Number that `num_cohorts` must be a multiple of: the number of sets of questions."""
        return int(metric.details.stride(metric.params.num_bits))

    def fewer_cohorts(self, metric: Metric) -> str:
        """Advice to declare fewer edges, since cohorts are a multiple of the sets of questions."""
        what = "bins" if metric.details.scale != "list" else "edges"
        asked, cohorts = len(metric.details.asked), self.cohort_step(metric)
        return f"fewer {what} (its {asked} questions take {cohorts} cohorts)"

    def check_cap(self, metric: Metric) -> None:
        """Require `max_memoized_values` to be the number of symbols, so that every answer is
        memoised."""
        if metric.max_memoized_values != metric.params.num_bits:
            refuse_field(metric, "max_memoized_values", "is not the number of symbols")

    def jittered(self, metric: Metric) -> bool:
        """Whether devices move their cuts by a secret constant: with `ask = "mean"`."""
        return bool(metric.details.ask == "mean")

    def num_values(self, metric: Metric) -> int | None:
        """Number of symbols, which are all that a device can come to say."""
        return metric.params.num_bits

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Numbers that together give every answer of every cohort; None is no data.

        None of mode `once`, which memoises nothing.
        """
        number = metric.details
        if number.mode == "once":
            return ()
        return (None, LOWEST if number.negative else 0.0, *number.edges)

    def number(self, metric: Metric, value: object) -> float | None:
        """A recorded value as a finite double; None for no data."""
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
        """What is made of a period, and how little of it a device says."""
        number = metric.details
        edges = tuple(f"{edge:g}" for edge in number.edges)
        said = (
            "only whether it reaches one threshold, which chance has given to it"
            if number.mode == "memo"
            else "once, between which of a few thresholds it lies"
        )
        apart = ", or that there was none" if number.none == "apart" else ""
        moved = ", each moved by a secret of the device" if number.ask == "mean" else ""
        made = f"{_OF_PERIOD[number.of_period]} a {metric.period}, in {number.unit}"
        return f"{made}. A device says {said}{apart}. The thresholds{moved}", edges


NUMBER = NumberKind()

_NUMBER_KEYS = {"unit", "of_period", "edges", "ask", "none", "mode", "spread", "whole"}
_NUMBER_KEYS |= {"num_symbols", "num_cohorts", "epsilon", "epsilon_infinity", "epsilon_one"}
_EDGE_KEYS = {"scale", "from", "to", "bins"}
MOST_BINS = 500
DEFAULT_BINS = {"edges": 32, "mean": 8}
DEFAULT_REPLICATES = 4  # cohorts of each question: two or more measure what memoised noise does
SYMBOLS_BY_EPSILON = ((1.5, 4), (3.0, 6), (math.inf, 8))  # of mode `once`: up to so many nats


def number_metric(name: str, table: Mapping[str, Any]) -> Metric:
    """Make a metric of kind `number` from its `[metrics.NAME]` table. Raises MetricsFileError
    that names the metric, the key and the value."""
    common = read_common(name, table, _NUMBER_KEYS)
    if table.get("mode") == "once":
        if table.get("max_reports", 1) != 1:
            refuse(name, "max_reports", table["max_reports"], "must be 1 for mode 'once'")
        common["max_reports"] = 1
    try:
        number = _number(name, table)
        symbols, mechanism = _noise(name, table, number)
        stride = number.stride(symbols)
        cohorts = table.get("num_cohorts", DEFAULT_REPLICATES * stride)
        params = RapporParams(symbols, 1, cohorts, mechanism, "ordered")
        return Metric(name=name, params=params, details=number,
                      max_memoized_values=symbols, **common)  # fmt: skip
    except (ParameterError, TypeError) as error:
        raise refused(name, table, error) from error


def _number(name: str, table: Mapping[str, Any]) -> Number:
    of_period, ask = needed(name, table, "of_period"), table.get("ask", "edges")
    whole = table.get("whole", of_period == "count")
    scale, edges = _edges(name, table, ask)
    if whole is True and ask == "edges":
        edges = whole_edges(edges)
    mode = cast(NumberMode, needed(name, table, "mode"))
    return Number(
        unit=needed(name, table, "unit"),
        of_period=of_period,
        edges=edges,
        scale=scale,  # type: ignore[arg-type]  # checked by Number
        whole=whole,
        ask=ask,
        none=needed(name, table, "none"),
        mode=mode,
        spread=table.get("spread", 1),
    )


def _edges(name: str, table: Mapping[str, Any], ask: object) -> tuple[str, tuple[float, ...]]:
    """The scale and the edges: a list, or a table of scale, from, to and bins."""
    edges = needed(name, table, "edges")
    if isinstance(edges, list):
        listed = as_edges(edges)
        check_rising(listed)
        return "list", listed
    if not isinstance(edges, dict):
        refuse(name, "edges", edges, "is not a list of numbers, nor { scale, from, to, bins }")
    refuse_unknown(f"metric {name!r}: edges", edges, _EDGE_KEYS)
    scale = needed(name, edges, "scale")
    if scale not in ("linear", "log"):
        refuse(name, "scale", scale, "is not linear or log; or give edges as a list")
    first, last = as_edges([needed(name, edges, key) for key in ("from", "to")])
    if not (math.isfinite(first) and math.isfinite(last) and first < last):
        refuse(name, "edges", edges, "do not rise from `from` to `to`")
    if scale == "log" and first <= 0:
        refuse(name, "from", first, "is not above 0, where a scale of logarithms begins")
    bins = edges.get("bins", DEFAULT_BINS.get(str(ask), 1))
    if type(bins) is not int or not 1 <= bins <= MOST_BINS:
        refuse(name, "bins", bins, f"is not a whole number from 1 to {MOST_BINS}")
    return scale, made_edges(scale, first, last, bins)


def _noise(name: str, table: Mapping[str, Any], number: Number) -> tuple[int, TwoRoundMechanism]:
    """How many symbols there are, and both rounds."""
    if number.mode == "memo":
        for key in sorted({"epsilon", "num_symbols"} & table.keys()):
            refuse(name, key, table[key], "goes with mode = 'once'")
        pair = [positive(name, table, key) for key in ("epsilon_infinity", "epsilon_one")]
        return 2, TwoRoundMechanism.symbols(2, *pair)
    for key in sorted({"epsilon_infinity", "epsilon_one"} & table.keys()):
        refuse(name, key, table[key], "goes with mode = 'memo'; give epsilon, of the one report")
    epsilon = positive(name, table, "epsilon")
    usual = next(g for most, g in SYMBOLS_BY_EPSILON if epsilon <= most)
    symbols = table.get("num_symbols", min(usual, len(number.asked) + 1))
    return symbols, TwoRoundMechanism.one_symbol(symbols, epsilon)
