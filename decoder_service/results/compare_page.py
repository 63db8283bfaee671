"""The page that compares two results: the job that would do it, or the stored comparison."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder_service.jobs.specs import JobKind
from decoder_service.people.permissions import Person
from decoder_service.results.map_changes import changes_data, changes_view, drawn_only
from decoder_service.results.rows import ResultRow
from decoder_service.shell.errors import RequestError
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Reader, address, render
from decoder_service.shell.web import router as new_router

MOST_CHOICES = 200
_OPTIONS = ("method", "correction", "alpha", "level", "repeats")
router = new_router()


@router.get("/compare")
def compare(request: Request, person: Reader, before: str = "", after: str = "") -> Response:
    """The page to choose two results, with the job that compares them, or the stored comparison."""
    results = service_of(request).results
    choices = [
        row
        for kind in (JobKind.DECODE, JobKind.DENSITY)
        for row in results.all(person, kind=kind, limit=MOST_CHOICES)
    ]
    context: dict[str, Any] = {"choices": choices, "before": before, "after": after}
    if not (before and after):
        return render(request, "compare.html.j2", person, **context, both=(), fields=())
    first, second = results.get(person, before), results.get(person, after)
    if first.id == second.id and first.kind == JobKind.DENSITY:
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
    return Response(drawn_only(data), media_type="application/json")


def _changes(request: Request, person: Person, row: ResultRow) -> dict[str, Any]:
    """Raises RequestError for a result without maps, or without changes."""
    results = service_of(request).results
    if row.kind != JobKind.DENSITY:
        raise RequestError(f"result {row.id} is a {row.kind}; changes of maps are of a density")
    names = ("map.json", "density.parquet")
    return changes_data(*(results.file(person, row.id, name) for name in names))


def job_fields(before: ResultRow, after: ResultRow) -> list[tuple[str, str]]:
    """The form of the job that computes the difference of two results, as names and values.

    Of two decodings a comparison of their counts, with the candidates and options of the later; of
    two densities one series of maps. Raises RequestError where no job can compare them.
    """
    kinds = {before.kind, after.kind}
    if len(kinds) > 1 or not kinds <= {JobKind.DECODE, JobKind.DENSITY}:
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
    spec = manifests[1]["spec"]
    if after.kind == JobKind.DENSITY:
        shas = dict.fromkeys([*old, *new])
        fields = [("kind", str(JobKind.DENSITY)), *(("aggregates", sha) for sha in shas)]
        fields += [("slots", slot) for slot in spec["map"]["slots"]]
        fields.append(("split", spec["map"]["split"]))
        return fields + _given(spec["map"], {"method": "map_method"})
    fields = [("kind", str(JobKind.COMPARE)), *(("before_aggregates", sha) for sha in old)]
    fields += [("aggregates", sha) for sha in new]
    return fields + _candidates(spec["candidates"]) + _given(spec["options"], {})


def _given(choices: dict[str, Any], called: dict[str, str]) -> list[tuple[str, str]]:
    found = [(called.get(name, name), choices.get(name)) for name in _OPTIONS]
    return [(name, str(value)) for name, value in found if value is not None]


def _candidates(spec: dict[str, Any]) -> list[tuple[str, str]]:
    if spec["list"] is not None:
        version = "" if spec["version"] is None else f":{spec['version']}"
        return [("list", spec["list"] + version)]
    return [
        (name, ":".join(map(str, spec[name])))
        for name in ("numbers", "dates")
        if spec[name] is not None
    ]


def _overlap(first: ResultRow, second: ResultRow) -> bool:
    """Whether two windows share reports."""
    days = (first.first_day, first.last_day, second.first_day, second.last_day)
    if None in days:
        return True
    return str(days[0]) <= str(days[3]) and str(days[2]) <= str(days[1])
