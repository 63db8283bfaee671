"""The chart on a metric's page: what its address asks for, and its downloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from starlette.responses import Response

from decoder.kinds.over_time import chart_csv
from decoder.kinds.result import RESULTS
from decoder.output.palette import THEMES
from decoder.output.series_view import MAX_LINES, series_chart, values_by_share, windows_between
from decoder_service.shell.database import matching
from decoder_service.shell.models import ResultRow
from decoder_service.shell.web import (
    HEADERS,
    Visit,
    address,
    environment,
    page_router,
)
from rappor_core.text import visible
from rappor_server.errors import NotFoundError, RequestError

RANGES = (7, 14, 30, 90)  # days up to the last
FIRST_LINES = 3  # drawn where the address names no value
OFFERED = 12  # values with a box to tick; others are typed
MAX_LISTED = 500  # values that the page completes
pages = page_router()


@dataclass(frozen=True)
class ChartQuery:
    """What the address of a page asks of its chart. first, last: ISO days, or "": no end."""

    values: tuple[str, ...]
    first: str
    last: str
    days: int | None
    log: bool
    large: bool

    def of(self, content: Mapping[str, Any]) -> ChartQuery:
        """With the values and days that a series has; by default those of the largest shares."""
        known = values_by_share(content)
        values = [value for value in self.values if value in known] or known[:FIRST_LINES]
        first, last = self.first, self.last
        if self.days is not None:
            last = str(content["windows"][-1]["last_day"])
            first = str(date.fromisoformat(last) - timedelta(days=self.days - 1))
        return ChartQuery(tuple(values[:MAX_LINES]), first, last, self.days, self.log, self.large)

    def address(self, path: str, **changes: Any) -> str:
        """The address of this chart below a path, with some parts of it changed."""
        query: dict[str, Any] = {
            "value": list(self.values),
            "days": self.days,
            "from": "" if self.days else self.first,
            "to": "" if self.days else self.last,
            "scale": "log" if self.log else "",
            "view": "large" if self.large else "",
        }
        return address(path, **(query | changes))


def _query(
    value: Annotated[list[str] | None, Query()] = None,
    more: str = "",
    scale: Literal["", "linear", "log"] = "",
    days: Literal["", "7", "14", "30", "90"] = "",
    first: Annotated[date | Literal[""], Query(alias="from")] = "",
    last: Annotated[date | Literal[""], Query(alias="to")] = "",
    view: str = "",
) -> ChartQuery:
    values = tuple(dict.fromkeys(one for one in [*(value or ()), more.strip()] if one))
    large, log = view == "large", scale == "log"
    return ChartQuery(values, str(first), str(last), int(days) if days else None, log, large)


Asked = Annotated[ChartQuery, Depends(_query)]


def chart_of(visit: Visit, row: ResultRow | None, asked: ChartQuery) -> dict[str, Any] | None:
    """The chart of a series, for the templates; None without one, or where nothing was found in it.

    phone: the same for a narrow page.  offered: values with a box.  names: values that are
    completed.  unknown: values of the address that the series has not found.  rows: name, places
    in both drawings and shares of each window.
    """
    if row is None:
        return None
    content = _content(visit, row)
    names = values_by_share(content)
    if not names:
        return None
    query = asked.of(content)
    if not windows_between(content, query.first, query.last):
        raise RequestError(
            f"no window of the series is from {query.first or 'its begin'} to "
            f"{query.last or 'its end'}; it has {content['windows'][0]['first_day']} to "
            f"{content['windows'][-1]['last_day']}"
        )
    chart, phone = (
        series_chart(content, query.values, query.first, query.last, log=query.log, size=size)
        for size in ("large" if query.large else "page", "phone")
    )
    rows = [
        (name, x, phone.windows[i][1], [line.shares[i] for line in chart.lines])
        for i, (name, x) in enumerate(chart.windows)
    ]
    return {
        "result": row,
        "chart": chart,
        "phone": phone,
        "query": query,
        "offered": list(dict.fromkeys([*query.values, *names[:OFFERED]])),
        "names": names[:MAX_LISTED],
        "unknown": [visible(one[:80]) for one in asked.values if one not in names],
        "rows": rows,
    }


def _content(visit: Visit, row: ResultRow) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(visit.service.results.file(visit.person, row.id, RESULTS))
    return found


def _series_of(visit: Visit, name: str) -> ResultRow:
    which = matching(ResultRow, metric=name, operation="series")
    results = visit.service.results.all(visit.person, *which, limit=1)
    if not results:
        raise NotFoundError(f"there is no series of metric {name[:80]!a} that you may see")
    return results[0]


@pages.get("/metrics/{name}/chart.svg")
def picture(visit: Visit, name: str, asked: Asked) -> Response:
    """The chart as a picture of its own, for light paper."""
    found = chart_of(visit, _series_of(visit, name), asked)
    if found is None:
        raise NotFoundError("nothing was found in the series, so that there is no chart")
    chart = found["chart"]
    label = f"Shares of {name[:80]} by day, {100 * chart.level:g} % intervals"
    template = environment().get_template("series_chart.svg.j2")
    text = template.render(chart=chart, theme=THEMES["light"], label=visible(label))
    return Response(text.strip(), headers=HEADERS, media_type="image/svg+xml")


@pages.get("/metrics/{name}/chart.csv")
def numbers(visit: Visit, name: str, asked: Asked) -> Response:
    """The numbers of the chart."""
    content = _content(visit, _series_of(visit, name))
    query = asked.of(content)
    text = chart_csv(content, query.values, query.first, query.last)
    return Response(text, headers=HEADERS, media_type="text/csv; charset=utf-8")
