"""Metrics of flows for tests, as text: a square of cells in four zones."""

from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

BASE = {
    "kind": '"flow"',
    "description": '"Usual night cell and usual work cell of a month, once"',
    "owner": '"maps@example.org"',
    "expires": "2099-12-31",
    "grid": '"square"',
    "box": "[0, 0, 4, 4]",
    "rows": "2",
    "columns": "2",
    "levels": "[0, 1]",
    "from": '"night 22-6"',
    "to": '"work 9-17"',
    "bands_km": "[120, 300]",
    "period": '"day"',
    "mode": '"once"',
    "epsilon": "2.0",
    "num_symbols": "8",
    "num_cohorts": "10",
    "min_reports": "10",
    "min_reports_per_cohort": "1",
}
LAGGED = {"to": '"night 22-6"', "lag": "2"}
YEARLY = {"mode": '"window"', "window": "3", "max_reports": "2"}


def flow_text(name: str = "commute", **changes: str | None) -> str:
    """A `[metrics.NAME]` table with some keys changed, or left out (None)."""
    changed = {key.rstrip("_"): value for key, value in changes.items()}  # from_ = "..."
    keys = {key: value for key, value in (BASE | changed).items() if value is not None}
    rows = "\n".join(f"{key} = {value}" for key, value in keys.items())
    return f"[metrics.{name}]\n{rows}\n"


def flow_metric(**changes: str | None) -> Metric:
    """The metric of such a table, by the name `commute`."""
    return parse_metrics(flow_text(**changes)).metrics["commute"]
