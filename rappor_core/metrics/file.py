"""Reading `metrics.toml`, the file that the client, the collector and the decoder share."""

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import MetricsFileError, ParameterError, shown, toml_problem
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile, check_budget, read_budget
from rappor_core.metrics.tables import MetricTable, refuse_unknown

MAX_CHARACTERS = 1_000_000
_TOP_KEYS = {"budget", "metrics"}


def parse_metrics(text: str) -> MetricsFile:
    """Parse the text of a `metrics.toml`. Raises MetricsFileError if it is invalid."""
    if len(text) > MAX_CHARACTERS:
        raise MetricsFileError(
            f"{len(text):,} characters; a metrics.toml has {MAX_CHARACTERS:,} at most"
        )
    import tomllib  # imported late, because the import takes a tenth of the time to open a file

    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise MetricsFileError("not TOML that can be read: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and numbers with thousands of digits
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


def table_metrics(
    name: str, table: Any, tables: Mapping[str, Any] | None = None
) -> tuple[Metric, ...]:
    """Read one table of a file as one metric, or one metric for each slot and level of a location.

    Args:
        name: The name of the metric.
        table: The keys and values as in the file.
        tables: All tables of the file; a `pair` metric may copy a list from another table.

    Raises:
        MetricsFileError: The table is invalid. The message names the metric, key, value and remedy.
    """
    if not isinstance(table, dict):
        raise MetricsFileError(f"metric {name!r}: {shown(table)} is not a table")
    if "kind" not in table:
        raise MetricsFileError(f"metric {name!r}: kind is missing")
    try:
        kind = kind_named(table["kind"])
    except ParameterError as error:
        raise MetricsFileError(f"metric {name!r}: {error}") from error
    read = MetricTable(name, kind.completed(table, tables or {}), kind)
    try:
        return tuple(Metric(**{"name": name, **fields}) for fields in kind.fields(read))
    except (ParameterError, TypeError) as error:
        raise read.problem(error) from error
