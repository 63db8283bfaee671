"""The page that compares two results: the job that would do it, or the stored comparison."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from decoder.kinds.interface import decoder_of, kinds_with
from decoder.kinds.location import MAP, MAP_CHANGES
from decoder.output.density_html import changes_view
from decoder_service.jobs.form import form_fields
from decoder_service.shell.database import matching
from decoder_service.shell.errors import RequestError
from decoder_service.shell.models import ResultRow
from decoder_service.shell.web import Visit, address, page_router

MAX_CHOICES = 200
pages = page_router()


@pages.get("/compare")
def compare(visit: Visit, before: str = "", after: str = "") -> Response:
    """The page to choose two results, with the job that compares them, or the stored comparison."""
    results = visit.service.results
    choices = [
        row
        for kind in kinds_with("compare")
        for row in results.all(
            visit.person, *matching(ResultRow, kind=kind, operation="decode"), limit=MAX_CHOICES
        )
    ]
    context: dict[str, Any] = {"choices": choices, "before": before, "after": after}
    if not (before and after):
        return visit.render("compare.html.j2", **context, both=(), fields=())
    first, second = results.get(visit.person, before), results.get(visit.person, after)
    if first.id == second.id and _has_maps(first):
        data = _changes(visit, first)
        url = address("/compare/map.json", result=first.id)
        context |= {"data_url": url, "both": (first, second)}
        return visit.render("compare_maps.html.j2", **context, **changes_view(data))
    fields = job_fields(first, second)
    return visit.render("compare.html.j2", **context, both=(first, second), fields=fields)


@pages.get("/compare/map.json")
def map_data(visit: Visit, result: str) -> Response:
    """The data that the script of a map of changes draws, as JSON."""
    data = _changes(visit, visit.service.results.get(visit.person, result))
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), media_type="application/json")


def _changes(visit: Visit, row: ResultRow) -> dict[str, Any]:
    """What is drawn of the changes. Raises RequestError for a result without maps, or without
    changes."""
    results = visit.service.results
    if not _has_maps(row):
        raise RequestError(f"result {row.id} is of a {row.kind}; maps are of a location")
    if MAP_CHANGES not in {file.name for file in results.view(visit.person, row.id).files}:
        raise RequestError("its maps are of one window each: nothing is compared with another")
    drawn, changes = (
        json.loads(results.file(visit.person, row.id, name)) for name in (MAP, MAP_CHANGES)
    )
    return {**drawn, **changes}


def job_fields(before: ResultRow, after: ResultRow) -> list[tuple[str, str]]:
    """The form of the job that compares the counts of two results, as names and values, with the
    lists and options of the later.

    Raises RequestError where no job can compare them.
    """
    if before.kind != after.kind or "compare" not in decoder_of(after.kind).operations:
        raise RequestError(
            f"results of kinds {before.kind} and {after.kind}: two of one kind are compared, of "
            f"{', '.join(kinds_with('compare'))}"
        )
    if before.metric != after.metric:
        raise RequestError(f"{before.metric!a} and {after.metric!a} are different metrics")
    if before.params_id != after.params_id:
        raise RequestError(
            "the two are of different versions of the metric: their reports mean different things, "
            "and a difference may come from the change of the declaration"
        )
    days = [one or "" for row in (before, after) for one in (row.first_day, row.last_day)]
    if not all(days) or (days[0] <= days[3] and days[2] <= days[1]):
        raise RequestError("the two share days, so they are not independent; choose windows apart")
    manifests = [json.loads(one.manifest) for one in (before, after)]
    old, new = (
        [sha for group in one["inputs"]["aggregates"] for sha in group] for one in manifests
    )
    fields = [("operation", "compare"), ("kind", after.kind)]
    fields += [("before_aggregates", sha) for sha in old]
    fields += [("aggregates", sha) for sha in new]
    return fields + form_fields(manifests[1]["spec"])


def _has_maps(row: ResultRow) -> bool:
    return "map" in decoder_of(row.kind).members
