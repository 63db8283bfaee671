"""The page that compares two results: the job that would do it, or the stored comparison."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder.output.map_changes import changes_view
from decoder_service.job_kinds.density import CHANGES, MAP
from decoder_service.jobs.kinds import job_kind, job_kinds
from decoder_service.people.permissions import Person
from decoder_service.results.rows import ResultRow
from decoder_service.shell.errors import RequestError
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Reader, address, render
from decoder_service.shell.web import router as new_router

MOST_CHOICES = 200
router = new_router()


@router.get("/compare")
def compare(request: Request, person: Reader, before: str = "", after: str = "") -> Response:
    """The page to choose two results, with the job that compares them, or the stored comparison."""
    results = service_of(request).results
    choices = [
        row
        for kind in job_kinds()
        if kind.compared
        for row in results.all(person, kind=kind.name, limit=MOST_CHOICES)
    ]
    context: dict[str, Any] = {"choices": choices, "before": before, "after": after}
    if not (before and after):
        return render(request, "compare.html.j2", person, **context, both=(), fields=())
    first, second = results.get(person, before), results.get(person, after)
    if first.id == second.id and _has_maps(first):
        data = _changes(request, person, first)
        url = address("/compare/map.json", result=first.id)
        context |= {"data_url": url, "both": (first, second)}
        return render(request, "compare_maps.html.j2", person, **context, **changes_view(data))
    fields = job_fields(first, second)
    return render(
        request, "compare.html.j2", person, **context, both=(first, second), fields=fields
    )


@router.get("/compare/map.json")
def map_data(request: Request, person: Reader, result: str) -> Response:
    """The data that the script of a map of changes draws, as JSON."""
    data = _changes(request, person, service_of(request).results.get(person, result))
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), media_type="application/json")


def _changes(request: Request, person: Person, row: ResultRow) -> dict[str, Any]:
    """What is drawn of the changes. Raises RequestError for a result without maps, or without
    changes."""
    results = service_of(request).results
    if not _has_maps(row):
        raise RequestError(f"result {row.id} is a {row.kind}; changes of maps are of a density")
    if CHANGES not in {file.name for file in results.files(person, row.id)}:
        raise RequestError("its maps are of one window each: nothing is compared with another")
    drawn, changes = (json.loads(results.file(person, row.id, name)) for name in (MAP, CHANGES))
    return {**drawn, **changes}


def job_fields(before: ResultRow, after: ResultRow) -> list[tuple[str, str]]:
    """The form of the job that computes the difference of two results, as names and values.

    Of two decodings a comparison of their counts, with the candidates and options of the later; of
    two densities one series of maps. Raises RequestError where no job can compare them.
    """
    kind = job_kind(after.kind)
    if kind is None or before.kind != after.kind or not kind.compared:
        raise RequestError("two decodings are compared, or two results of maps")
    if before.metric != after.metric:
        raise RequestError(f"{before.metric!a} and {after.metric!a} are different metrics")
    if before.params_id != after.params_id:
        raise RequestError(
            "the two are of different versions of the metric: their reports mean different things, "
            "and a difference may come from the change of the declaration"
        )
    if _overlap(before, after):
        raise RequestError("the two share days, so they are not independent; choose windows apart")
    manifests = [json.loads(one.manifest) for one in (before, after)]
    old, new = (
        [sha for group in one["inputs"]["aggregates"] for sha in group] for one in manifests
    )
    return kind.comparing(manifests[1]["spec"], old, new)


def _has_maps(row: ResultRow) -> bool:
    kind = job_kind(row.kind)
    return kind is not None and kind.has_map_changes


def _overlap(first: ResultRow, second: ResultRow) -> bool:
    """Whether two windows share reports."""
    days = (first.first_day, first.last_day, second.first_day, second.last_day)
    if None in days:
        return True
    return str(days[0]) <= str(days[3]) and str(days[2]) <= str(days[1])
