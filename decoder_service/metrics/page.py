"""Pages for metrics: the list with search and state, one metric over time, and its chart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from decoder.kinds.interface import kinds_with
from decoder.kinds.over_time import chart_csv
from decoder.kinds.result import RESULTS
from decoder.output.charts import sparkline
from decoder.output.jinja import THEMES
from decoder.output.series_view import MAX_LINES, series_chart, values_by_share, windows_between
from decoder_service.metrics.rules import MetricView
from decoder_service.shell.database import matching
from decoder_service.shell.models import ResultRow
from decoder_service.shell.requests import (
    GuardedRoute,
    Me,
    Service,
    current_person,
    service_of,
    without_key,
)
from decoder_service.shell.web import HEADERS, Visit, address, environment, page_router, render
from metric_design.dictionary import DictionaryEntry, entries_of
from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric
from rappor_core.risk import rise_text
from rappor_core.text import visible
from rappor_server.errors import AuthenticationError, NotFoundError, RequestError

RANGES = ("7", "14", "30", "90")  # the number of days up to the last day
FIRST_LINES = 3  # the number of lines drawn if the URL names no value
OFFERED = 12  # the number of values with a checkbox; other values are typed
MAX_LISTED = 500  # the maximum number of values for autocompletion
pages = page_router()


class ChartQuery(BaseModel):
    """The chart parameters in a page's URL."""

    value: list[str] = []
    more: str = ""  # A typed value
    days: Literal["", "7", "14", "30", "90"] = ""
    first: date | Literal[""] = Field("", alias="from")  # A day, or "" for no limit
    last: date | Literal[""] = Field("", alias="to")
    scale: Literal["", "linear", "log"] = ""

    @property
    def values(self) -> list[str]:
        """The requested values, without duplicates."""
        return list(dict.fromkeys(text for text in (*self.value, self.more.strip()) if text))

    def of(self, content: Mapping[str, Any]) -> ChartQuery:
        """Return the query limited to values of the series (or its largest), with explicit days."""
        names = values_by_share(content)
        values = [value for value in self.values if value in names] or names[:FIRST_LINES]
        first, last = str(self.first), str(self.last)
        if self.days:
            last = str(content["windows"][-1]["last_day"])
            first = str(date.fromisoformat(last) - timedelta(days=int(self.days) - 1))
        chosen = {"value": values[:MAX_LINES], "more": "", "first": first, "last": last}
        return self.model_copy(update=chosen)

    def address(self, path: str) -> str:
        """Return the URL that shows this chart on the page at `path`."""
        ends = {} if self.days else {"from": self.first, "to": self.last}
        scale = "log" if self.scale == "log" else ""
        return address(path, value=self.value, days=self.days, **ends, scale=scale)


Asked = Annotated[ChartQuery, Query()]


def chart_of(visit: Visit, row: ResultRow | None, choice: ChartQuery) -> dict[str, Any] | None:
    """Return the template variables of a series' chart; None if there is nothing to draw.

    `phone` is the chart for a narrow page; `offered` values have a checkbox, `names` are
    autocompleted, `unknown` values are in the URL but not in the series; each of `rows` has a name,
    its positions in both drawings, and its share in each window."""
    if row is None:
        return None
    content = _content(visit, row)
    names = values_by_share(content)
    if not names:
        return None
    query = choice.of(content)
    ends = str(query.first), str(query.last)
    if not windows_between(content, *ends):
        raise RequestError(
            f"no window of the series is from {query.first or 'its first day'} to "
            f"{query.last or 'its last day'}; it has {content['windows'][0]['first_day']} to "
            f"{content['windows'][-1]['last_day']}"
        )
    chart, phone = (
        series_chart(content, query.values, *ends, log=query.scale == "log", size=size)
        for size in ("page", "phone")
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
        "unknown": [visible(value[:80]) for value in choice.values if value not in names],
        "rows": rows,
    }


def _content(visit: Visit, row: ResultRow) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(visit.service.results.file(visit.person, row.id, RESULTS))
    return content


def _series_of(visit: Visit, name: str) -> ResultRow:
    which = matching(ResultRow, metric=name, operation="series")
    results = visit.service.results.all(visit.person, *which, limit=1)
    if not results:
        raise NotFoundError(f"there is no series of metric {name[:80]!a} that you may see")
    return results[0]


@pages.get("/metrics/{name}/chart.svg")
def picture(visit: Visit, name: str, asked: Asked) -> Response:
    """Return the chart as a separate picture, for light paper."""
    view = chart_of(visit, _series_of(visit, name), asked)
    if view is None:
        raise NotFoundError("the series contains no values, so there is no chart")
    chart = view["chart"]
    label = f"Shares of {name[:80]} by day, {100 * chart.level:g} % intervals"
    template = environment().get_template("series_chart.svg.j2")
    text = template.render(chart=chart, theme=THEMES["light"], label=visible(label))
    return Response(text.strip(), headers=HEADERS, media_type="image/svg+xml")


@pages.get("/metrics/{name}/chart.csv")
def numbers(visit: Visit, name: str, asked: Asked) -> Response:
    """Return the numbers of the chart as CSV."""
    content = _content(visit, _series_of(visit, name))
    query = asked.of(content)
    text = chart_csv(content, query.values, str(query.first), str(query.last))
    return Response(text, headers=HEADERS, media_type="text/csv; charset=utf-8")


api = APIRouter(prefix="/v1", tags=["metrics"], route_class=GuardedRoute)
MAX_RESULTS = 1000
_UNREAD = "this list may be incomplete: {}"


@api.get("/metrics", operation_id="listMetrics")
def list_metrics(service: Service, person: Me) -> dict[str, Any]:
    """List every version of every metric with the collector's declaration and result count."""
    views, problem = service.metrics.all(person)
    return {"metrics": [asdict(view) for view in views], "problem": problem}


@pages.get("/metrics")
def index(visit: Visit, q: str = "") -> Response:
    """Show the page of all metrics that the collector lists, or that have a result."""
    listed, problem = visit.service.metrics.all(visit.person)
    by_name: dict[str, list[MetricView]] = defaultdict(list)
    for view in listed:
        by_name[view.name.partition("/")[0]].append(view)
    series = matching(ResultRow, operation="series")
    stored = visit.service.results.all(visit.person, *series, limit=MAX_RESULTS)
    newest = {row.metric: row for row in reversed(stored)}
    rows = [_metric(name, views, newest.get(name)) for name, views in sorted(by_name.items())]
    texts = (f"{row['name']} {row['description']} {row['kind']}".casefold() for row in rows)
    words = q.casefold().split()
    hits = [row for row, text in zip(rows, texts, strict=True) if all(w in text for w in words)]
    return visit.render("metrics.html.j2", rows=hits, total=len(rows), q=q, problem=problem)


@pages.get("/metrics/{name}")
def one(visit: Visit, name: str, asked: Asked) -> Response:
    """Show the page of a metric: its chart over time, and the results of each version."""
    service = visit.service
    listed, problem = service.metrics.all(visit.person)
    views = [view for view in listed if view.name.partition("/")[0] == name]
    results = service.results.all(
        visit.person, *matching(ResultRow, metric=name), limit=MAX_RESULTS
    )
    if not views and not results:
        raise NotFoundError(f"there is no metric {name[:80]!a}, and no result for it")
    versions = [
        {
            "params_id": params_id,
            "listed": [one.listed for one in views if one.params_id == params_id and one.listed],
            "results": [row for row in results if row.params_id == params_id],
        }
        for params_id in dict.fromkeys([*(v.params_id for v in views if v.results or v.listed),
                                        *(row.params_id for row in results)])
    ]  # fmt: skip
    if any("/" in view.name for view in views):  # for slots and levels, show those with results
        versions = [version for version in versions if version["results"]] or versions[:1]
    series = next((row for row in results if row.operation == "series"), None)
    return visit.render(
        "metric.html.j2",
        chart=chart_of(visit, series, asked),
        colors=THEMES["light"],
        ranges=RANGES,
        health=_metric(name, views, kind=results[0].kind if results else ""),
        versions=versions,
        problem=problem,
    )


def _metric(
    name: str, views: Sequence[MetricView], series: ResultRow | None = None, kind: str = ""
) -> dict[str, Any]:
    """Return the template variables of a declared metric, over all its slots and versions.

    `closed_through` is the last day that is closed in all of them; `has_series` is whether it can
    be decoded over time; `last` is the largest value of its newest series, with shares and last
    change."""
    listed = [view.listed for view in views if view.listed]
    definition = listed[-1].get("definition", {}) if listed else {}
    closed = [str(row["closed_through"]) for row in listed if row.get("closed_through")]
    declared = str(definition.get("kind", ""))
    last = None if series is None else json.loads(series.summary).get("latest")
    return {
        "name": name,
        "description": str(definition.get("description", "")),
        "kind": visible(declared),
        "states": sorted({str(row.get("state", "")) for row in listed}),
        "accepted": sum(int(row.get("accepted", 0)) for row in listed) if listed else None,
        "closed_through": min(closed, default=""),
        "expires": visible(str(definition.get("expires", ""))),
        "versions": len({view.params_id for view in views}),
        "results": sum(view.results for view in views),
        "latest_day": max((view.latest_day or "" for view in views), default=""),
        "has_series": (kind or declared) in kinds_with("series"),
        "last": last and last | {"spark": sparkline(last["shares"])},
    }


@pages.get("/dictionary")
@without_key
def public_dictionary(request: Request) -> Response:
    """Show the public page on the current data collection."""
    service, person = service_of(request), None
    with suppress(AuthenticationError):
        person = current_person(request)
    definitions, problem = service.metrics.public()
    entries, unread = _entries(json.dumps(definitions), service.clock().date())
    return render(
        request,
        "public_dictionary.html.j2",
        person,
        entries=entries,
        contact="",
        rise=rise_text,
        problem=problem or (_UNREAD.format(unread) if unread else ""),
    )


@lru_cache(maxsize=1)  # the page is public, and changes once a day at most
def _entries(definitions: str, today: date) -> tuple[list[DictionaryEntry], str]:
    metrics, problem = list[Metric](), ""
    for definition in json.loads(definitions):
        try:
            metrics.append(Metric.from_dict(definition))
        except RapporError as error:
            problem = problem or str(error)
    return entries_of(metrics, today), problem
