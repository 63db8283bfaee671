"""Checks for a declared metric, whose messages name the metric, the key and the value."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Final, Literal, get_args

from rappor_core.errors import MetricsFileError, shown
from rappor_core.hashing import MAX_VALUE_CHARS, canonical
from rappor_core.metrics.kinds import KINDS, refuse_field

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

Period = Literal["day", "week", "month"]
Platform = Literal["app", "web"]
APP: Final = "app"  # its storage lasts as long as the app is installed
WEB: Final = "web"  # a browser, which may delete its storage at any time

MAX_ACCEPT_DAYS = 90
MAX_REPORTS_FOR_LIFE = 10**9
MAX_LIVES = 10_000

NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)


def check_definition(metric: Metric) -> None:
    """Check each key alone, then all keys together. Raises MetricsFileError if invalid."""
    _check_name(metric)
    _check_choices(metric)
    _check_numbers(metric)
    _check_cohort_floor(metric)
    _check_no_data(metric)
    _check_lengths(metric)
    _check_kind(metric)
    _check_lifetime(metric)
    _check_platforms(metric)


def _check_name(metric: Metric) -> None:
    location = metric.location
    place = "" if location is None else f"/{location.slot}/{location.level}"
    if (
        not isinstance(metric.name, str)
        or not metric.name.endswith(place)
        or not NAME.fullmatch(metric.name.removesuffix(place))
    ):
        raise MetricsFileError(
            f"metric name {metric.name!r}: use a lower-case letter, then up to 63 of a-z 0-9 _.-"
            + (f", then {place!r}" if place else "")
        )


def _check_choices(metric: Metric) -> None:
    for key, choices in (("kind", tuple(KINDS)), ("period", get_args(Period))):
        if getattr(metric, key) not in choices:
            refuse_field(metric, key, f"is not one of {', '.join(choices)}")
    for key in ("description", "owner"):
        if not isinstance(getattr(metric, key), str) or not getattr(metric, key).strip():
            refuse_field(metric, key, "is empty; state what is collected and who is responsible")
    if type(metric.fallback) not in (str, type(None)):
        refuse_field(metric, "fallback", "is not a string")
    if type(metric.expires) is not date:
        refuse_field(metric, "expires", "is not a date such as 2027-06-30")
    if metric.params.encoding not in metric.rules.encodings:
        refuse_field(metric, "kind", f"does not go with encoding {metric.params.encoding!r}")


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
            refuse_field(metric, key, f"is not a whole number from {lowest} to {highest:,}")
    if metric.max_reports is not None and (
        type(metric.max_reports) is not int or not 1 <= metric.max_reports <= MAX_REPORTS_FOR_LIFE
    ):
        refuse_field(
            metric, "max_reports", f"is not a whole number from 1 to {MAX_REPORTS_FOR_LIFE:,}"
        )


def _check_cohort_floor(metric: Metric) -> None:
    floor = metric.min_reports_per_cohort
    if floor is None:
        return
    if type(floor) is not int or not 1 <= floor <= metric.min_reports:
        why = f"is not a whole number from 1 to min_reports = {metric.min_reports:,}"
        refuse_field(metric, "min_reports_per_cohort", why)


def _check_lengths(metric: Metric) -> None:
    for key in ("categories", "fallback", "no_data"):
        texts = getattr(metric, key)
        for text in texts if isinstance(texts, tuple) else (texts,):
            if isinstance(text, str) and len(text) > MAX_VALUE_CHARS:
                raise MetricsFileError(
                    f"metric {metric.name!r}: {key} has {shown(text)}, of {len(text):,} characters;"
                    f" a device encodes at most {MAX_VALUE_CHARS:,}"
                )


def _check_kind(metric: Metric) -> None:
    if metric.categories and not metric.rules.has_key("categories"):
        refuse_field(metric, "categories", "goes with kind = 'category' only")
    if (metric.location is not None) != metric.rules.located:
        refuse_field(metric, "location", "goes with kind = 'location', which needs it")
    if type(metric.details) is not (metric.rules.details or type(None)):
        refuse_field(metric, "details", f"does not go with kind = {metric.kind!r}")
    metric.rules.check(metric)


def _check_lifetime(metric: Metric) -> None:
    if not metric.params.mechanism.has_permanent_round and metric.max_reports is None:
        refuse_field(
            metric,
            "max_reports",
            "is missing: without a permanent response (prob_f = 0) nothing else bounds "
            "what a device tells in its life",
        )
    values = metric.num_values
    if metric.fallback is None and (values is None or values > metric.max_memoized_values):
        refuse_field(metric, "fallback", "is missing: say what is sent past max_memoized_values")
    reserved = {canonical(v) for v in (metric.fallback, metric.no_data) if v is not None}
    cap, params = metric.max_memoized_values, metric.params
    all_fit = bool(params.scheme.symbols) and cap >= params.num_bits  # the cap covers all symbols
    if params.mechanism.has_permanent_round and cap <= len(reserved) and not all_fit:
        refuse_field(
            metric,
            "max_memoized_values",
            "leaves no place beside fallback and no_data, which alone would ever be sent; "
            f"use {len(reserved) + 1} or more",
        )


def _check_no_data(metric: Metric) -> None:
    if metric.no_data is None:
        return
    if type(metric.no_data) is not str or not metric.rules.has_key("no_data"):
        why = "is not a string, or its kind takes none"
        refuse_field(metric, "no_data", why)


def _check_platforms(metric: Metric) -> None:
    """Require a report limit for browsers, which applies per storage lifetime.

    A browser may delete the ledger, so only this limit holds, once per lifetime of its storage.
    """
    known = get_args(Platform)
    platforms: object = metric.platforms  # can have any type if it comes from a file
    if type(platforms) is not tuple or not _are_different(platforms, known):
        why = f"is not a list of one or more of {', '.join(known)}, each once"
        refuse_field(metric, "platforms", why)
    if WEB not in metric.platforms:
        if metric.lives is not None:
            refuse_field(metric, "lives", "goes with platforms that name 'web'")
        return
    missing = [key for key in ("max_reports", "lives") if getattr(metric, key) is None]
    if missing:
        raise MetricsFileError(
            f"metric {metric.name!r}: add {' and '.join(missing)}: "
            f'platforms = ["{WEB}"] requires {"them" if missing[1:] else "it"}, because a browser '
            "may delete what bounds an app's reports"
        )
    if type(metric.lives) is not int or not 1 <= metric.lives <= MAX_LIVES:
        why = (
            f"is not a whole number from 1 to {MAX_LIVES:,}: say how many lives of a browser's "
            "storage the lifetime epsilon is to account for"
        )
        refuse_field(metric, "lives", why)


def _are_different(names: tuple[object, ...], known: tuple[str, ...]) -> bool:
    named = [name for name in names if isinstance(name, str) and name in known]
    return 0 < len(names) == len(named) == len(set(named))
