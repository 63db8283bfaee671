"""Reading `metrics.toml`, the one file that client, collector and decoder share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rappor_core.encodings import encoding_named
from rappor_core.errors import MetricsFileError, ParameterError, shown, toml_problem
from rappor_core.metrics.kinds import kind_named, kind_names
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile, check_budget, read_budget
from rappor_core.metrics.tables import NOISE_KEYS, SHAPE_KEYS, refuse_unknown, refused
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
    "platforms",
    "lives",
}
_REQUIRED = ("kind", "description", "owner", "expires")


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
        raise MetricsFileError(toml_problem(error, text)) from None
    refuse_unknown("the file", document, _TOP_KEYS)
    tables = document.get("metrics")
    if not isinstance(tables, dict) or not tables:
        raise MetricsFileError("there is no [metrics.NAME] table")
    budget = read_budget(document.get("budget"))
    metrics = (m for name, table in tables.items() for m in table_metrics(name, table, tables))
    file = MetricsFile({metric.name: metric for metric in metrics}, budget)
    check_budget(file)
    return file


def table_metrics(name: str, table: Any, tables: Mapping[str, Any]) -> Iterable[Metric]:
    """Read one table of a file. Raises MetricsFileError."""
    if not isinstance(table, dict):
        raise MetricsFileError(f"metric {name!r}: {shown(table)} is not a table")
    kind = table.get("kind")
    try:
        if kind in kind_names():
            table = kind_named(kind).completed(name, table, tables)
        whole = kind_named(kind).metrics(name, table) if kind in kind_names() else None
    except ParameterError as error:  # a kind that is not installed
        raise MetricsFileError(f"metric {name!r}: {error}") from error
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
        raise refused(name, table, error) from error
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
    encoding = rules.encoding(table)
    single_bit = encoding_named(encoding).single_bit
    mechanism = rules.mechanism(name, table, shape["num_hashes"], single_bit=single_bit)
    return RapporParams(mechanism=mechanism, encoding=encoding, **shape)
