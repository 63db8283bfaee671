"""Two results beside each other: windows of one version, or versions of one metric."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder.service.errors import RequestError
from decoder.service.operations.permissions import Person
from decoder.service.pages.compare_view import comparison, detected_values, of_results
from decoder.service.pages.map_changes import (
    ResultMaps,
    changes_data,
    changes_view,
    drawn_only,
    read_maps,
)
from decoder.service.pages.tables import query_of
from decoder.service.pages.web import Reader, address, render
from decoder.service.pages.web import router as new_router
from decoder.service.requests import service_of
from decoder.service.specs import Kind
from decoder.service.store.results import ResultRow

MOST_CHOICES = 200
router = new_router()


@router.get("/compare")
def compare(request: Request, person: Reader, before: str = "", after: str = "") -> Response:
    """The difference of two decodings, with its own interval; first a choice of two."""
    results = service_of(request).results
    choices = [
        row
        for kind in (Kind.DECODE, Kind.DENSITY)
        for row in results.all(person, kind=kind, limit=MOST_CHOICES)
    ]
    if not (before and after):
        return render(
            request, "compare.html.j2", person, choices=choices, before=before, after=after, pair=()
        )
    pair = results.get(person, before), results.get(person, after)
    if {one.kind for one in pair} == {Kind.DENSITY}:
        return _maps(request, person, pair, choices)
    rows = of_results(*_contents(request, person, pair), level=0.95)
    return render(
        request,
        "compare.html.j2",
        person,
        choices=choices,
        before=before,
        after=after,
        pair=pair,
        reports=[int(json.loads(one.summary)["num_reports"]) for one in pair],
        **comparison(rows, query_of(request.query_params)),
        query=query_of(request.query_params),
    )


@router.get("/compare/map.json")
def map_data(request: Request, person: Reader, before: str = "", after: str = "") -> Response:
    """What the script of a map of changes draws."""
    results = service_of(request).results
    pair = results.get(person, before), results.get(person, after)
    _, data = _changes(request, person, pair)
    return Response(drawn_only(data), media_type="application/json")


def _maps(
    request: Request,
    person: Person,
    pair: tuple[ResultRow, ResultRow],
    choices: Sequence[ResultRow],
) -> Response:
    old, data = _changes(request, person, pair)
    given = {"before": pair[0].id, "after": pair[1].id}
    return render(
        request,
        "compare_maps.html.j2",
        person,
        choices=choices,
        pair=pair,
        windows=old.windows,
        data_url=address("/compare/map.json", **given, **{"from": data["reference"]}),
        before=pair[0].id,
        after=pair[1].id,
        **changes_view(data),
    )


def _changes(
    request: Request, person: Person, pair: tuple[ResultRow, ResultRow]
) -> tuple[ResultMaps, dict[str, Any]]:
    """The earlier maps, and what is drawn of their changes. Raises RequestError, NotFoundError."""
    results = service_of(request).results
    if {one.kind for one in pair} != {Kind.DENSITY}:
        raise RequestError("maps are compared with maps")
    if pair[0].metric != pair[1].metric:
        raise RequestError(f"{pair[0].metric!a} and {pair[1].metric!a} are different metrics")
    old, new = (
        read_maps(
            one.params_id,
            results.file(person, one.id, "map.json"),
            results.file(person, one.id, "density.parquet"),
        )
        for one in pair
    )
    return old, changes_data(old, new, request.query_params.get("from", ""))


def _contents(
    request: Request, person: Person, pair: tuple[ResultRow, ResultRow]
) -> tuple[bytes, bytes, set[str]]:
    """The candidates of both, and the values that either found. Raises RequestError."""
    results = service_of(request).results
    for one in pair:
        if one.kind != "decode":
            raise RequestError(f"result {one.id} is a {one.kind}; two decodings are compared")
        if not results.is_own(person, one.id):
            raise RequestError(
                f"result {one.id} is not yours: its estimates of all candidates are its owner's"
            )
    first, second = pair
    if first.metric != second.metric:
        raise RequestError(f"{first.metric!a} and {second.metric!a} are different metrics")
    if _overlap(first, second):
        raise RequestError(
            "the two share days, so they are not independent; choose windows apart, or start a "
            "job of kind compare, which fits the difference itself"
        )
    values = {
        value
        for one in pair
        for value in detected_values(results.file(person, one.id, "results.json"))
    }
    before, after = (results.file(person, one.id, "candidates.parquet") for one in pair)
    return before, after, values


def _overlap(first: ResultRow, second: ResultRow) -> bool:
    """Whether two windows of one version share reports; versions have reports of their own."""
    if first.params_id != second.params_id:
        return False
    days = (first.first_day, first.last_day, second.first_day, second.last_day)
    if None in days:
        return True
    return str(days[0]) <= str(days[3]) and str(days[2]) <= str(days[1])
