"""Metrics: the list with search and state, and one metric over its windows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from decoder.kinds.interface import has_candidates, kinds_with
from decoder.kinds.result import RESULTS
from decoder.output.charts import Plot, count_plot, sparkline
from decoder.output.palette import THEMES
from decoder.output.series_view import (
    ValuePanel,
    value_panel,
    value_panels,
    window_names,
    window_reports,
)
from decoder.tables.format import days
from decoder_service.metrics.chart_page import RANGES, chart_of
from decoder_service.metrics.rules import MetricView
from decoder_service.shell.errors import NotFoundError
from decoder_service.shell.guard import GuardedRoute
from decoder_service.shell.models import ResultRow
from decoder_service.shell.requests import Me, Service
from decoder_service.shell.web import Visit
from decoder_service.shell.web import router as new_router
from rappor_core.text import visible

api = APIRouter(prefix="/v1", tags=["metrics"], route_class=GuardedRoute)


@api.get("/metrics", operation_id="listMetrics")
def list_metrics(service: Service, person: Me) -> dict[str, Any]:
    """Every version of every metric: what the collector declares, and how many results."""
    views = service.metrics.all(person)
    return {"metrics": [asdict(view) for view in views.metrics], "problem": views.problem}


MOST_RESULTS = 1000
MOST_VALUES = 12  # of a version
router = new_router()


@dataclass(frozen=True)
class Health:
    """The state of a declared metric at the collector, over all its slots and versions.

    closed_through: the last day that is closed in all of them.  results: how many one may see.
    has_series: whether it is decoded over time, too.
    last: the largest value of its newest series, with its shares and last change.
    """

    name: str
    description: str
    kind: str
    states: tuple[str, ...]
    accepted: int | None
    closed_through: str
    expires: str
    versions: int
    results: int
    latest_day: str
    has_series: bool
    last: dict[str, Any] | None = None


@dataclass(frozen=True)
class Version:
    """A version of a metric: results of one params_id, never mixed with another's.

    level: of the intervals of the panels.  alpha: of their tests; None where they differ.
    """

    params_id: str
    listed: tuple[dict[str, Any], ...]
    results: tuple[ResultRow, ...]
    panels: tuple[ValuePanel, ...]
    names: tuple[str, ...]
    volume: Plot | None
    reports: tuple[int, ...]
    source: str
    level: float | None
    alpha: float | None


@router.get("/metrics")
def index(visit: Visit, q: str = "") -> Response:
    """The page of all metrics that the collector lists, or that a result is of."""
    found = visit.service.metrics.all(visit.person)
    by_name: dict[str, list[MetricView]] = defaultdict(list)
    for view in found.metrics:
        by_name[view.name.partition("/")[0]].append(view)
    stored = visit.service.results.all(visit.person, operation="series", limit=MOST_RESULTS)
    newest = {row.metric: row for row in reversed(stored)}
    rows = [
        replace(_health(name, views), last=_last_change(newest.get(name)))
        for name, views in sorted(by_name.items())
    ]
    shown = [row for row in rows if _matches(row, q)]
    return visit.render("metrics.html.j2", rows=shown, total=len(rows), q=q, problem=found.problem)


@router.get("/metrics/{name}")
def one(visit: Visit, name: str) -> Response:
    """The page of a metric: for each version its shares over time and its reports."""
    service = visit.service
    found = service.metrics.all(visit.person)
    views = [view for view in found.metrics if view.name.partition("/")[0] == name]
    results = service.results.all(visit.person, metric=name, limit=MOST_RESULTS)
    if not views and not results:
        raise NotFoundError(f"there is no metric {name[:80]!a}, nor a result of one")
    versions = [
        _version(visit, params_id, views, results)
        for params_id in dict.fromkeys([*(v.params_id for v in views if v.results or v.listed),
                                        *(row.params_id for row in results)])
    ]  # fmt: skip
    if any("/" in view.name for view in views):  # slots and levels of places: those with results
        versions = [one for one in versions if one.results] or versions[:1]
    series = next((row for row in results if row.operation == "series"), None)
    return visit.render(
        "metric.html.j2",
        chart=chart_of(visit, series),
        colours=THEMES["light"],
        ranges=RANGES,
        health=_health(name, views, results),
        versions=versions,
        problem=found.problem,
    )


def _last_change(series: ResultRow | None) -> dict[str, Any] | None:
    """The last change in the summary of a series, with the line of its shares."""
    found = None if series is None else json.loads(series.summary).get("latest")
    return found and found | {"spark": sparkline(found["shares"])}


def _health(name: str, views: Sequence[MetricView], stored: Sequence[ResultRow] = ()) -> Health:
    listed = [view.listed for view in views if view.listed]
    definitions = [one.get("definition", {}) for one in listed]
    first = definitions[-1] if definitions else {}
    closed = [str(one["closed_through"]) for one in listed if one.get("closed_through")]
    declared = next((row.kind for row in stored), str(first.get("kind", "")))
    return Health(
        name=name,
        description=str(first.get("description", "")),
        kind=visible(str(first.get("kind", ""))),
        states=tuple(sorted({str(one.get("state", "")) for one in listed})),
        accepted=sum(int(one.get("accepted", 0)) for one in listed) if listed else None,
        closed_through=min(closed, default=""),
        expires=visible(str(first.get("expires", ""))),
        versions=len({view.params_id for view in views}),
        results=sum(view.results for view in views),
        latest_day=max((view.latest_day or "" for view in views), default=""),
        has_series=declared in kinds_with("series"),
    )


def _matches(row: Health, q: str) -> bool:
    text = f"{row.name} {row.description} {row.kind}".casefold()
    return all(word in text for word in q.casefold().split())


def _version(
    visit: Visit,
    params_id: str,
    views: Sequence[MetricView],
    results: Sequence[ResultRow],
) -> Version:
    """A version with panels of its newest series, or else of the decodings of single windows."""
    own = tuple(row for row in results if row.params_id == params_id)
    series = next((row for row in own if row.operation == "series"), None)
    alpha: float | None = None
    if series is not None:
        found = json.loads(visit.service.results.file(visit.person, series.id, RESULTS))
        values = list(dict.fromkeys(row["string"] for row in found["rows"]))[:MOST_VALUES]
        panels, names = value_panels(found, values), window_names(found)
        reports, level, alpha = window_reports(found), found["level"], found["alpha"]
    else:
        windows = windows_of(own)
        panels = tuple(_panels_of_windows(windows))
        names = tuple(days(row.first_day, row.last_day) for row, _ in windows)
        reports = tuple(int(summary["num_reports"]) for _, summary in windows)
        level = _same_level([row for row, _ in windows])
    return Version(
        params_id=params_id,
        listed=tuple(view.listed for view in views if view.params_id == params_id and view.listed),
        results=own,
        panels=panels,
        names=names,
        volume=count_plot(reports) if reports else None,
        reports=reports,
        source="" if series is None else series.id,
        level=level,
        alpha=alpha,
    )


def windows_of(results: Iterable[ResultRow]) -> list[tuple[ResultRow, dict[str, Any]]]:
    """The newest decoding of each window, oldest window first, with its summary."""
    newest: dict[tuple[str, str], ResultRow] = {}
    for row in results:  # newest first
        if (
            row.operation == "decode"
            and has_candidates(row.kind)
            and row.first_day
            and row.last_day
        ):
            newest.setdefault((row.first_day, row.last_day), row)
    return [(row, json.loads(row.summary)) for _, row in sorted(newest.items())]


def _same_level(rows: Sequence[ResultRow]) -> float | None:
    """The level of the intervals of several decodings; None where they differ."""
    found = {json.loads(row.manifest).get("spec", {}).get("options", {}).get("level")
             for row in rows}  # fmt: skip
    return found.pop() if len(found) == 1 else None


def _panels_of_windows(windows: Sequence[tuple[ResultRow, dict[str, Any]]]) -> Iterable[ValuePanel]:
    found: dict[str, list[tuple[float, float, float] | None]] = {}
    for number, (_, summary) in enumerate(windows):
        for row in summary["top"]:
            known = found.setdefault(row["value"], [None] * len(windows))
            known[number] = (row["share"], row["low"], row["high"])
    ranked = sorted(found, key=lambda value: -max(one[0] for one in found[value] if one))
    for value in ranked[:MOST_VALUES]:
        yield value_panel(value, found[value])
