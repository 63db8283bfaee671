"""`flows.html`: flows in one page, self-contained, without a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decoder.output.flows_view import flows_view
from decoder.output.jinja import page_template
from decoder.output.tables import TableQuery
from rappor_core.risk import rise_text
from rappor_core.text import counted

SHOWN = 25  # rows of the page's table at least; all that are detected, and flows.csv has the rest


def render_flows(found: Mapping[str, Any]) -> str:
    """Render flows.html. found: content of results.json."""
    variables = flows_view(dict(found), TableQuery(rows=max(SHOWN, found["num_detected"]))) | {
        "query": None
    }
    return page_template("flows.html.j2").render(guarantee=_guarantee(found), **variables)


def _guarantee(found: Mapping[str, Any]) -> str:
    """What each device was promised, in words."""
    epsilon, reports = found["epsilon"], found["max_reports"]
    said = (
        f"Each device answers one question about its pair of usual cells, which one its cohort "
        f"says, through noise of its own: by one answer {rise_text(epsilon)}"
    )
    return f"{said}. It gives {counted(reports, 'answer')} at most: {found['for_life']}."
