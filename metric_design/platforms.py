"""The metrics that browsers or phones reject, and the keys to add for them."""

import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from metric_design.review import SAFARI_DAYS
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import COMPILED_ENDING, load_metrics
from rappor_core.metrics.file import table_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP, WEB

_BROKEN = (
    OSError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    RecursionError,
    MetricsFileError,
)
LIVES = 12  # The proposal: a year, if a browser keeps its storage for a month
PASTE = ". To change that, add these keys under the existing headings"  # then a block to paste
_SILENT = (
    f"browsers do not record {{names}}{PASTE} (one report per lifetime of a browser's storage; "
    "docs/metrics.md, 'Where a metric may run'):"
)
_PHONE = 'phones do not record {names}: add "app" to platforms'
_PARTS = (
    "the TypeScript client refuses the file without its parts for {names}: pass `...parts()`, "
    "which `rappor metrics compile --typescript` writes, to openClient"
)


def load_for_devices(path: Path) -> tuple[MetricsFile, list[str]]:
    """Read a metrics file, and describe metrics that browsers and phones will reject.

    Returns:
        The file, and sentences, one of them with a block to paste; none if nothing is rejected.

    Raises:
        MetricsFileError: The file is invalid. The error includes the sentences if a metric for
            browsers lacks only the keys that they need.
    """
    hints, on_web = list[str](), False
    if path.suffix != COMPILED_ENDING:
        with suppress(*_BROKEN):
            document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
            on_web = any(
                WEB in table.get("platforms", []) for table in document["metrics"].values()
            )
            hints = advice(document, datetime.now(UTC).date())  # `load_metrics` reports errors
    try:
        return load_metrics(path), hints
    except MetricsFileError as error:
        raise MetricsFileError("\n".join([str(error), *(hints if on_web else [])])) from error


def advice(document: Mapping[str, Any], today: date) -> list[str]:
    """Describe the metrics of a `metrics.toml` that browsers and phones reject.

    Raises:
        MetricsFileError: The document has a different error.
    """
    tables, budget = document["metrics"], document.get("budget")
    blocks: dict[str, str] = {}
    hints: list[str] = []
    metrics: list[Metric] = []
    for name, table in tables.items():
        try:
            added, declared = _for_browsers(name, table, tables, today)
        except MetricsFileError as error:
            declared = table_metrics(name, table, tables)
            hints.append(f"a browser cannot run {name}: {error}")
        else:
            if added:
                lines = (f"{key} = {json.dumps(value)}" for key, value in added.items())
                blocks[name] = "\n".join((f"[metrics.{name}]", *lines))
        metrics.extend(declared)
    file = MetricsFile({metric.name: metric for metric in metrics})
    if blocks:
        text = "\n\n".join(blocks.values())
        if budget is not None and file.lifetime_epsilon > budget:
            text = f"budget = {file.lifetime_epsilon + 0.05:.1f}  # was {budget:g}\n\n{text}"
        hints.append(f"{_SILENT.format(names=', '.join(blocks))}\n\n{text}\n")
    if phones := [name for name, keys in tables.items() if APP not in keys.get("platforms", [APP])]:
        hints.append(_PHONE.format(names=", ".join(phones)))
    if parts := [m.base_name for m in file.declared if m.location or m.rules.client_part]:
        hints.append(_PARTS.format(names=", ".join(parts)))
    return hints


def _for_browsers(
    name: str, table: Mapping[str, Any], tables: Mapping[str, Any], today: date
) -> tuple[dict[str, Any], tuple[Metric, ...]]:
    """Return the keys that a table lacks for browsers, and its metrics with these keys added."""
    added: dict[str, Any] = {}
    if WEB not in table.get("platforms", []):
        added["platforms"] = [*table.get("platforms", [APP]), WEB]
    if "lives" not in table:
        days = max(0, (table["expires"] - today).days)
        added["lives"] = min(LIVES, days // SAFARI_DAYS + 1)
    try:
        return added, table_metrics(name, {**table, **added}, tables)
    except MetricsFileError:
        if "max_reports" in table:
            raise
    added["max_reports"] = 1
    return added, table_metrics(name, {**table, **added}, tables)
