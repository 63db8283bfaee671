"""Reading `metrics.toml`, the one file that client, collector and decoder share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from rappor_core.encodings.interface import encoding_named
from rappor_core.errors import MetricsFileError, ParameterError, file_problem, shown, toml_problem
from rappor_core.frozen import Frozen
from rappor_core.metrics.kinds import kind_named, kind_names
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.tables import (
    NOISE_KEYS,
    SHAPE_KEYS,
    is_positive,
    read_mechanism,
    refuse_unknown,
)
from rappor_core.params import RapporParams

MAX_CHARACTERS = 1_000_000
_TOP_KEYS = {"budget", "metrics"}
_METRIC_KEYS = {
    "kind",
    "description",
    "owner",
    "expires",
    "max_memoized_values",
    "categories",
    "fallback",
    "no_data",
    "max_reports",
    "period",
    "max_reports_per_period",
    "min_reports",
    "min_reports_per_cohort",
    "accept_days",
    "keep_raw_days",
}
_REQUIRED = ("kind", "description", "owner", "expires")


class MetricsFile(Frozen):
    """All metrics of an app, by name, and the device-wide budget.

    metrics: a metric of kind `location` stands as its sub-metrics, `name/slot/level`.
    budget: nats for one device, over all metrics and for life; None = no bound declared.
    """

    metrics: Mapping[str, Metric]
    budget: float | None = None

    @property
    def lifetime_epsilon(self) -> float:
        """Nats: the sum of what all declared metrics may cost a device."""
        return sum(metric.lifetime_epsilon for metric in self.declared)

    @property
    def declared(self) -> tuple[Metric, ...]:
        """One metric for each declared name: of a location, the first of its sub-metrics."""
        first: dict[str, Metric] = {}
        for metric in self.metrics.values():
            first.setdefault(metric.base_name, metric)
        return tuple(first.values())

    def parts(self, name: str) -> tuple[Metric, ...]:
        """The sub-metrics of a declared name, in order; the metric itself if it has none.

        Raises MetricsFileError for a name that is not declared.
        """
        found = tuple(m for m in self.metrics.values() if m.base_name == name)
        if not found:
            names = ", ".join(metric.base_name for metric in self.declared)
            raise MetricsFileError(f"metric {name!r} is not declared; declared are {names}")
        return found


def load_metrics(path: str | os.PathLike[str]) -> MetricsFile:
    """Read a file. Raises MetricsFileError that names the file, the metric, the key, the value."""
    try:
        with open(os.fspath(path), encoding="utf-8") as file:  # a number would be a handle
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise MetricsFileError(f"{path}: cannot be read: {file_problem(error)}") from error
    try:
        return parse_metrics(text)
    except MetricsFileError as error:
        raise MetricsFileError(f"{path}: {error}") from error


def parse_metrics(text: str) -> MetricsFile:
    """Read the text of a `metrics.toml`. Raises MetricsFileError."""
    if len(text) > MAX_CHARACTERS:
        raise MetricsFileError(
            f"{len(text):,} characters; a metrics.toml has {MAX_CHARACTERS:,} at most"
        )
    import tomllib  # only where there is a text to read: it is a tenth of what opening costs

    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise MetricsFileError("not TOML that can be read: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        raise MetricsFileError(toml_problem(error)) from None
    refuse_unknown("the file", document, _TOP_KEYS)
    tables = document.get("metrics")
    if not isinstance(tables, dict) or not tables:
        raise MetricsFileError("there is no [metrics.NAME] table")
    budget = _budget(document.get("budget"))
    metrics = {m.name: m for name, table in tables.items() for m in _metrics(name, table)}
    file = MetricsFile(metrics, budget)
    _check_budget(file)
    return file


def _metrics(name: str, table: Any) -> Iterable[Metric]:
    if not isinstance(table, dict):
        raise MetricsFileError(f"metric {name!r}: {shown(table)} is not a table")
    kind = table.get("kind")
    whole = kind_named(kind).metrics(name, table) if kind in kind_names() else None
    return (_metric(name, table),) if whole is None else whole


def _metric(name: str, table: Mapping[str, Any]) -> Metric:
    kind = table.get("kind")
    own = kind_named(kind).keys if kind in kind_names() else frozenset[str]()
    refuse_unknown(f"metric {name!r}", table, _METRIC_KEYS | SHAPE_KEYS | NOISE_KEYS | own)
    for key in _REQUIRED:
        if key not in table:
            raise MetricsFileError(f"metric {name!r}: {key} is missing")
    try:
        params = _params(name, table)
        rules = kind_named(kind)
        details = rules.read_details(name, table)
    except ParameterError as error:
        raise MetricsFileError(f"metric {name!r}: {error}") from error
    given = {key: table[key] for key in _METRIC_KEYS & table.keys()}
    given["categories"] = _categories(name, table)
    if rules.default_cap is not None:
        given.setdefault("max_memoized_values", rules.default_cap)
    elif "max_memoized_values" not in given:
        raise MetricsFileError(f"metric {name!r}: max_memoized_values is missing")
    return Metric(name=name, params=params, details=details, **given)


def _categories(name: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    categories = table.get("categories", [])
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise MetricsFileError(
            f"metric {name!r}: categories = {shown(categories)} is not a list of text"
        )
    return tuple(categories)


def _params(name: str, table: Mapping[str, Any]) -> RapporParams:
    rules = kind_named(table["kind"])
    _categories(name, table)
    shape = rules.shape(name, table)
    encoding = rules.encodings[0]
    single_bit = encoding_named(encoding).single_bit
    mechanism = read_mechanism(name, table, shape["num_hashes"], single_bit=single_bit)
    return RapporParams(mechanism=mechanism, encoding=encoding, **shape)


def _check_budget(file: MetricsFile) -> None:
    if file.budget is None or file.lifetime_epsilon <= file.budget:
        return
    worst = max(file.declared, key=lambda metric: metric.lifetime_epsilon)
    raise MetricsFileError(
        f"budget = {file.budget:g} is below the {file.lifetime_epsilon:.3f} that the metrics may "
        f"cost a device in its life; {worst.base_name!r} alone may cost "
        f"{worst.lifetime_epsilon:.3f} (max_memoized_values = {worst.max_memoized_values}, "
        f"epsilon_infinity = {worst.params.epsilon_infinity:.3f}): "
        "lower its cap or its epsilon, or raise the budget"
    )


def _budget(value: Any) -> float | None:
    if value is None:
        return None
    if not is_positive(value):
        raise MetricsFileError(f"budget = {shown(value)} is not a positive number of nats")
    return float(value)
