"""The view of a metric of numbers, from results.json: for report.html and the service."""

from __future__ import annotations

from typing import Any

from decoder.files import row_of
from decoder.numbers.tables import Bin, CurvePoint
from decoder.output.numbers_svg import bins_plots, curve_plots, edge_text
from decoder.tables.format import known

_OF_PERIOD = {
    "sum": "sum", "count": "number of records", "mean": "mean", "median": "median",
    "max": "largest number", "last": "last number",
}  # fmt: skip
_OPEN = ("lower", "upper")  # edges of a bin that are None where it is open


def number_view(found: dict[str, Any]) -> dict[str, Any]:
    """The variables of `result_number.html.j2`. found: content of results.json."""
    points = [row_of(CurvePoint, one) for one in found["curve"]]
    bins = [row_of(Bin, one, _OPEN) for one in found["bins"]]
    return {
        "found": found,
        "curve": curve_plots(points) if points else (),
        "bins": bins_plots(bins) if points else (),
        "edge": _edge,
        "known": known,
        "of_period": _OF_PERIOD.get(found["of_period"], found["of_period"]),
        "level": f"{100 * found['level']:g} %",
    }


def _edge(value: float | None) -> str:
    return "open" if value is None else edge_text(value)
