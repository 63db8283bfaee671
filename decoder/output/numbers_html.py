"""`report.html` of a metric of numbers: one page, self-contained."""

from __future__ import annotations

from typing import Any

from decoder.numbers.changes import NumberSeries
from decoder.numbers.tables import NumberDecoding
from decoder.output.jinja import page_template
from decoder.output.number_view import number_view
from decoder.output.numbers_svg import change_text
from rappor_core.metrics.metric import Metric
from rappor_core.risk import rise_text, risk_of


def render_numbers(
    found: dict[str, Any], decoding: NumberDecoding, series: NumberSeries | None = None
) -> str:
    """Render report.html of a metric of numbers.

    found: content of results.json of `decoding`.  series: of windows, for what changed.
    """
    return page_template("numbers.html.j2").render(
        description=decoding.definition.get("description"),
        period=decoding.definition.get("period", "day"),
        guarantee=_guarantee(decoding),
        series=series,
        change_text=change_text,
        **number_view(found),
    )


def _guarantee(decoding: NumberDecoding) -> str:
    """What each device was promised, in words."""
    one = decoding.params.epsilon_one
    said = (
        f"Each device says on which side of a public cut its number lies, through a coin of its "
        f"own: by one report {rise_text(one)}"
    )
    risk = risk_of(Metric.from_dict(decoding.definition))
    if decoding.number.mode == "once":
        return f"{said}. It gives 1 answer at most: {risk.for_life}."
    return (
        f"{said}. It has two answers for life, each bounded by epsilon = {risk.answer:.2f}; both "
        f"together by {risk.for_life}, whatever its numbers are; when its number crosses the cut "
        "is not hidden."
    )
