"""What a declared metric must hold to; each check names the metric, the key and the value."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

from rappor_core.errors import MetricsFileError, ParameterError, shown
from rappor_core.hashing import canonical
from rappor_core.params import Encoding
from rappor_core.reserved import OTHER

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

Kind = Literal["string", "category", "boolean", "location"]
Period = Literal["day", "week", "month"]

MAX_ACCEPT_DAYS = 90
MAX_REPORTS_FOR_LIFE = 10**9

_ENCODINGS: dict[str, tuple[Encoding, ...]] = {
    "string": ("bloom",),
    "category": ("one_hot",),
    "boolean": ("boolean",),
    "location": ("bloom", "one_hot", "symbol"),
}
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)


def encodings_of(kind: str) -> tuple[Encoding, ...]:
    """The encodings that go with a kind of metric, the usual one first.

    Raises ParameterError for an unknown kind.
    """
    if not isinstance(kind, str) or kind not in _ENCODINGS:
        raise ParameterError(f"kind = {kind!r} is not one of {', '.join(get_args(Kind))}")
    return _ENCODINGS[kind]


def check_definition(metric: Metric) -> None:
    """Check each key alone, then together. Raises MetricsFileError."""
    _check_name(metric)
    _check_choices(metric)
    _check_numbers(metric)
    _check_cohort_floor(metric)
    _check_categories(metric)
    _check_location(metric)
    _check_no_data(metric)
    _check_lifetime(metric)


def _check_name(metric: Metric) -> None:
    location = metric.location
    place = "" if location is None else f"/{location.slot}/{location.level}"
    if (
        not isinstance(metric.name, str)
        or not metric.name.endswith(place)
        or not _NAME.fullmatch(metric.name.removesuffix(place))
    ):
        raise MetricsFileError(
            f"metric name {metric.name!r}: use a lower-case letter, then up to 63 of a-z 0-9 _.-"
            + (f", then {place!r}" if place else "")
        )


def _check_choices(metric: Metric) -> None:
    for key, choices in (("kind", get_args(Kind)), ("period", get_args(Period))):
        if getattr(metric, key) not in choices:
            _refuse(metric, key, f"is not one of {', '.join(choices)}")
    for key in ("description", "owner"):
        if not isinstance(getattr(metric, key), str) or not getattr(metric, key).strip():
            _refuse(metric, key, "is empty; say what is collected and who answers for it")
    if type(metric.fallback) not in (str, type(None)):
        _refuse(metric, "fallback", "is not a string")
    if type(metric.expires) is not date:
        _refuse(metric, "expires", "is not a date such as 2027-06-30")
    if metric.params.encoding not in _ENCODINGS[metric.kind]:
        _refuse(metric, "kind", f"does not go with encoding {metric.params.encoding!r}")


def _check_numbers(metric: Metric) -> None:
    for key, lowest, highest in (
        ("max_memoized_values", 1, 1_000_000),
        ("max_reports_per_period", 1, 10_000),
        ("min_reports", 1, 10**9),
        ("accept_days", 0, MAX_ACCEPT_DAYS),
        ("keep_raw_days", 0, 3650),
    ):
        value = getattr(metric, key)
        if type(value) is not int or not lowest <= value <= highest:
            _refuse(metric, key, f"is not a whole number from {lowest} to {highest:,}")
    if metric.max_reports is not None and (
        type(metric.max_reports) is not int or not 1 <= metric.max_reports <= MAX_REPORTS_FOR_LIFE
    ):
        _refuse(metric, "max_reports", f"is not a whole number from 1 to {MAX_REPORTS_FOR_LIFE:,}")


def _check_cohort_floor(metric: Metric) -> None:
    floor = metric.min_reports_per_cohort
    if floor is None:
        return
    if type(floor) is not int or not 1 <= floor <= metric.min_reports:
        why = f"is not a whole number from 1 to min_reports = {metric.min_reports:,}"
        _refuse(metric, "min_reports_per_cohort", why)


def _check_categories(metric: Metric) -> None:
    if metric.kind != "category":
        if metric.categories:
            _refuse(metric, "categories", "goes with kind = 'category' only")
        return
    if len(metric.categories) < 2 or len(set(metric.categories)) != len(metric.categories):
        _refuse(metric, "categories", "needs two or more different strings")
    if len(metric.categories) != metric.params.num_bits:
        _refuse(metric, "categories", f"does not fit num_bits = {metric.params.num_bits}")


def _check_location(metric: Metric) -> None:
    if (metric.location is None) != (metric.kind != "location"):
        _refuse(metric, "location", "goes with kind = 'location', which needs it")
    if metric.location is None:
        return
    if metric.fallback != OTHER:
        _refuse(metric, "fallback", f"is not {OTHER!r}, the one reserved value of a location")
    if metric.max_reports_per_period != 1:
        _refuse(metric, "max_reports_per_period", "is not 1: one report a slot and period")
    if (metric.location.mode == "memo") != metric.params.mechanism.has_permanent_round:
        _refuse(metric, "params", "do not go with its mode: only 'memo' has a permanent response")
    if metric.params.encoding == "one_hot" and metric.params.num_bits != metric.num_values:
        _refuse(metric, "params", f"need one bit for each of the {metric.num_values} values")


def _check_lifetime(metric: Metric) -> None:
    if not metric.params.mechanism.has_permanent_round and metric.max_reports is None:
        _refuse(
            metric,
            "max_reports",
            "is missing: without a permanent response (prob_f = 0) nothing else bounds "
            "what a device tells in its life",
        )
    if metric.fallback is None:
        if metric.num_values is None or metric.num_values > metric.max_memoized_values:
            _refuse(metric, "fallback", "is missing: say what is sent past max_memoized_values")
    elif metric.kind == "boolean":
        _refuse(metric, "fallback", "has no use: a boolean has two values, both may be memoised")
    elif metric.kind == "category" and canonical(metric.fallback) not in metric.categories:
        _refuse(metric, "fallback", "is not one of the categories")
    taken = {canonical(v) for v in (metric.fallback, metric.no_data) if v is not None}
    if metric.params.mechanism.has_permanent_round and metric.max_memoized_values <= len(taken):
        _refuse(
            metric,
            "max_memoized_values",
            "leaves no place beside fallback and no_data, which alone would ever be sent; "
            f"use {len(taken) + 1} or more",
        )
    if metric.kind == "boolean" and metric.max_memoized_values != 2:
        _refuse(metric, "max_memoized_values", "must be 2 for a boolean")


def _check_no_data(metric: Metric) -> None:
    if metric.no_data is None:
        return
    if type(metric.no_data) is not str or metric.kind not in ("string", "category"):
        _refuse(metric, "no_data", "is not a string, or its metric no 'string' or 'category'")
    if metric.kind == "category" and canonical(metric.no_data) not in metric.categories:
        _refuse(metric, "no_data", "is not one of the categories")


def _refuse(metric: Metric, key: str, why: str) -> NoReturn:
    raise MetricsFileError(f"metric {metric.name!r}: {key} = {shown(getattr(metric, key))} {why}")
