"""Reading a `[metrics.NAME]` table of kind `number`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import (
    Number,
    NumberMode,
    as_edges,
    check_rising,
    made_edges,
    whole_edges,
)
from rappor_core.metrics.tables import needed, positive, refuse, refuse_unknown, refused
from rappor_core.params import RapporParams

_NUMBER_KEYS = {"unit", "of_period", "edges", "ask", "none", "mode", "spread", "whole"}
_NUMBER_KEYS |= {"num_symbols", "num_cohorts", "epsilon", "epsilon_infinity", "epsilon_one"}
_OPTIONAL_KEYS = {"period", "min_reports", "min_reports_per_cohort", "accept_days", "keep_raw_days"}
_OPTIONAL_KEYS |= {"platforms", "lives", "max_reports"}
_REQUIRED_KEYS = {"kind", "description", "owner", "expires"}
_KEYS = _NUMBER_KEYS | _OPTIONAL_KEYS | _REQUIRED_KEYS
_EDGE_KEYS = {"scale", "from", "to", "bins"}
MOST_BINS = 500
DEFAULT_BINS = {"edges": 32, "mean": 8}
DEFAULT_REPLICATES = 4  # cohorts of each question: two or more measure what memoised noise does
SYMBOLS_BY_EPSILON = ((1.5, 4), (3.0, 6), (math.inf, 8))  # of mode `once`: up to so many nats


def number_metric(name: str, table: Mapping[str, Any]) -> Metric:
    """Make a metric of kind `number` from its `[metrics.NAME]` table. Raises MetricsFileError
    that names the metric, the key and the value."""
    refuse_unknown(f"metric {name!r}", table, _KEYS)
    common = {key: needed(name, table, key) for key in sorted(_REQUIRED_KEYS)}
    common |= {key: table[key] for key in _OPTIONAL_KEYS & table.keys()}
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
