"""`report.html` of a metric of numbers: one page, self-contained."""

from __future__ import annotations

from typing import Any

from decoder.numbers.changes import NumberSeries
from decoder.numbers.tables import NumberDecoding
from decoder.output.jinja import page_template
from decoder.output.number_text import days, factor, known
from decoder.output.numbers_svg import bins_plots, change_text, curve_plots, edge_text

OF_PERIOD = {
    "sum": "sum", "count": "number of records", "mean": "mean", "median": "median",
    "max": "largest number", "last": "last number",
}  # fmt: skip


def render_numbers(decoding: NumberDecoding, series: NumberSeries | None = None) -> str:
    """Render report.html of a metric of numbers."""
    page = page_template("numbers.html.j2", edge=edge_text)
    return page.render(_context(decoding, series))


def _context(decoding: NumberDecoding, series: NumberSeries | None) -> dict[str, Any]:
    of_edges = bool(decoding.curve)
    return {
        "decoding": decoding,
        "number": decoding.number,
        "level": f"{100 * decoding.level:g} %",
        "window": days(decoding.first_day, decoding.last_day) if decoding.first_day else None,
        "description": decoding.definition.get("description"),
        "of_period": OF_PERIOD[decoding.number.of_period],
        "period": decoding.definition.get("period", "day"),
        "curve": curve_plots(decoding.curve) if of_edges else (),
        "bins": bins_plots(decoding.bins) if of_edges else (),
        "guarantee": _guarantee(decoding),
        "series": series,
        "known": known,
        "change_text": change_text,
    }


def _guarantee(decoding: NumberDecoding) -> str:
    """What each device was promised, in words."""
    one = decoding.params.epsilon_one
    said = (
        f"Each device says on which side of a public cut its number lies, through a coin of its "
        f"own: one report changes the odds of any guess at most {factor(one)} times "
        f"(epsilon = {one:.2f})"
    )
    if decoding.number.mode == "once":
        return f"{said}, and a device reports once in its life."
    life = decoding.params.epsilon_infinity
    return (
        f"{said}. It has two answers for life, each bounded by epsilon = {life:.2f}, so both "
        f"together by {2 * life:.2f}, however long it reports and whatever its numbers are; when "
        "its number crosses the cut is not hidden."
    )
