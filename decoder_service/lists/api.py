"""Lists of values, weights, known flows and areas; uploads. Files are read after the key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder.tables.table import csv_of_texts
from decoder_service.jobs.specs import StrictModel
from decoder_service.lists.contents import FILES, file_name
from decoder_service.lists.rows import ListKind
from decoder_service.lists.rules import NewList
from decoder_service.shell.clock import text_of
from decoder_service.shell.guard import GuardedRoute, takes_file
from decoder_service.shell.models import AggregateRow, ListRow, ListVersionRow
from decoder_service.shell.requests import Me, Service, service_of

router = APIRouter(prefix="/v1", tags=["lists"], route_class=GuardedRoute)
Text = Annotated[str, StringConstraints(max_length=1000)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]
Suffix = Annotated[Literal["txt", "csv"], Query(alias="format")]
_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class Share(StrictModel):
    """Whether other analysts see it."""

    shared: bool


@router.get("/lists", operation_id="listLists")
def list_lists(service: Service, person: Me) -> dict[str, Any]:
    """Your lists and shared ones, with their latest versions."""
    return {"lists": [shown_list(row) for row in service.lists.all(person)]}


@router.post("/lists", operation_id="createList", status_code=201, openapi_extra=_FILE)
@takes_file
async def create_list(
    request: Request, service: Service, person: Me, asked: Annotated[NewList, Query()]
) -> dict[str, Any]:
    """Store a list: the body is a file with a value a line, or a csv.

    Of kind weights it is a csv of `value,weight`; a line without a value is of all others. Of kind
    flows it is a csv of `origin,destination,count`, a known matrix. Of kind areas it is a GeoJSON
    FeatureCollection of polygons, whose names are in the property `column`, "name" by default.
    """
    content = await request.body()
    row = await run_in_threadpool(service.lists.create, person, asked, content)
    return shown_list(row)


@router.get("/lists/{list_id}", operation_id="getList")
def get_list(service: Service, person: Me, list_id: str) -> dict[str, Any]:
    """A list and its versions."""
    row = service.lists.get(person, list_id)
    return shown_list(row) | {"versions": [shown_version(one) for one in row.versions]}


@router.get("/lists/{list_id}/content", operation_id="getListContent")
def get_content(
    service: Service,
    person: Me,
    list_id: str,
    version: Number | None = None,
    exact: bool = False,
) -> Response:
    """The values of a version, one a line, the latest by default.

    Of weights a CSV of `value,weight`, of known flows one of `origin,destination,count`, without
    formulas of spreadsheets, or exact: as stored. Of areas GeoJSON.
    """
    lists = service.lists
    row = lists.get(person, list_id)
    number = lists.version(person, list_id, version).number
    content = lists.content(person, list_id, number)
    file = FILES[ListKind(row.kind)]
    if file.columns and not exact:
        content = csv_of_texts(content, file.columns)
    name = file_name(row.kind, list_id, number)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=file.media_type, headers=headers)


@router.post(
    "/lists/{list_id}/versions", operation_id="addListVersion", status_code=201, openapi_extra=_FILE
)
@takes_file
async def add_version(
    request: Request, person: Me, list_id: str, suffix: Suffix = "txt", column: Text | None = None
) -> dict[str, Any]:
    """Store a new version of a list of yours; the same content gives no new one."""
    content = await request.body()
    add = service_of(request).lists.add_version
    found = await run_in_threadpool(add, person, list_id, content, suffix=suffix, column=column)
    return shown_version(found)


@router.post("/lists/{list_id}/share", operation_id="shareList")
def share(service: Service, person: Me, list_id: str, body: Share) -> dict[str, Any]:
    """Show a list of yours to other analysts, or to yourself alone."""
    service.lists.share(person, list_id, body.shared)
    return shown_list(service.lists.get(person, list_id))


@router.delete("/lists/{list_id}", operation_id="deleteList")
def delete_list(service: Service, person: Me, list_id: str) -> dict[str, Any]:
    """Delete a list of yours and its values; results keep its digest."""
    service.lists.delete(person, list_id)
    return {"deleted": list_id}


@router.get("/aggregates", operation_id="listAggregates")
def list_aggregates(service: Service, person: Me) -> dict[str, Any]:
    """Aggregates that you uploaded or that jobs of yours have read, newest first."""
    rows = service.aggregates.all(person)
    return {"aggregates": [shown_aggregate(row) for row in rows]}


@router.post("/aggregates", operation_id="uploadAggregate", status_code=201, openapi_extra=_FILE)
@takes_file
async def upload(request: Request, person: Me) -> dict[str, Any]:
    """Store an aggregate file, for jobs to name by its digest."""
    content = await request.body()
    row = await run_in_threadpool(service_of(request).aggregates.upload, person, content)
    return shown_aggregate(row)


def shown_list(row: ListRow) -> dict[str, Any]:
    """The public properties of a list."""
    latest = row.latest
    return {
        "id": row.id,
        "name": row.name,
        "owner": row.person.name,
        "visibility": row.visibility,
        "source": row.source,
        "created": text_of(row.created),
        "version": latest.number,
        "sha256": latest.sha256,
        "entries": latest.entries,
        "size": latest.size,
        "changed": text_of(latest.created),
        "kind": row.kind,
    }


def shown_version(row: ListVersionRow) -> dict[str, Any]:
    """The public properties of a list's version."""
    names = ("list_id", "number", "sha256", "entries", "size")
    return {name: getattr(row, name) for name in names} | {"created": text_of(row.created)}


def shown_aggregate(row: AggregateRow) -> dict[str, Any]:
    """The public properties of an aggregate, without its counts."""
    names = ("sha256", "metric", "params_id", "first_day", "last_day", "num_reports", "kind",
             "num_cohorts", "own_values")  # fmt: skip
    return {name: getattr(row, name) for name in names} | {"created": text_of(row.created)}
