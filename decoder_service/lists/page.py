"""Pages and routes for lists (upload, versions, share) and uploaded counts."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder.kinds.interface import DECODERS, decoder_of
from decoder.tables.table import csv_of_texts
from decoder_service.lists.rules import FILES, NewList
from decoder_service.shell.database import shown
from decoder_service.shell.models import ListKind, ListRow
from decoder_service.shell.requests import Flag, GuardedRoute, Me, Service, service_of, takes_file
from decoder_service.shell.web import Form, Posted, Visit, add_form, page_router, parsed, redirect
from rappor_server.errors import RequestError

pages = page_router()
api = APIRouter(prefix="/v1", tags=["lists"], route_class=GuardedRoute)
VERSION = "list_id number sha256 entries size created"  # the public properties of a version
AGGREGATE = "sha256 metric params_id first_day last_day num_reports kind created"
Text = Annotated[str, StringConstraints(max_length=1000)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]
Suffix = Annotated[Literal["txt", "csv"], Query(alias="format")]
_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@pages.get("/lists")
def index(visit: Visit) -> Response:
    """Show the page of own and shared lists and of uploaded counts, with upload forms."""
    service = visit.service
    return visit.render(
        "lists.html.j2",
        lists=service.lists.all(visit.person),
        aggregates=service.aggregates.all(visit.person),
    )


@pages.post("/lists")
@takes_file
def create(service: Service, person: Me, form: Form) -> Response:
    """Store a list from a file or from typed values."""
    content, suffix = _values(form)
    fields = {name: form.text(name) for name in ("name", "source", "shared", "column", "kind")}
    flags = {"shared": bool(fields["shared"]), "format": suffix}
    texts = {name: text for name, text in fields.items() if text or name == "name"}
    row = service.lists.create(person, parsed(NewList, texts | flags), content)
    return redirect(f"/lists/{row.id}")


@pages.post("/lists/aggregates")
@takes_file
def post_aggregate(service: Service, person: Me, form: Form) -> Response:
    """Store an uploaded aggregate file."""
    if "file" not in form.files:
        raise RequestError("no file was chosen; rappor aggregate METRIC -o FILE makes one")
    service.aggregates.upload(person, form.files["file"][1])
    return redirect("/lists")


@pages.get("/lists/{list_id}")
def one(visit: Visit, list_id: str) -> Response:
    """Show the page of a list and its versions."""
    row = visit.service.lists.get(visit.person, list_id)
    is_own = row.owner == visit.person.id or visit.person.is_admin
    return visit.render(
        "list.html.j2",
        row=row,
        own=is_own,
        takes={
            member: next(name for name in DECODERS if member in decoder_of(name).members)
            for member in ("known", "areas")
        },
    )


@pages.post("/lists/{list_id}/versions")
@takes_file
def post_version(service: Service, person: Me, list_id: str, form: Form) -> Response:
    """Store a new version of a list."""
    content, suffix = _values(form)
    column = form.text("column") or None
    service.lists.add_version(person, list_id, content, suffix=suffix, column=column)
    return redirect(f"/lists/{list_id}")


def lists_by_kind(rows: Sequence[ListRow]) -> dict[str, list[ListRow]]:
    """Return a form's choices: `lists` (of candidates), `weights`, `known_flows`, `areas`."""
    names = zip(("lists", "weights", "known_flows", "areas"), ListKind, strict=True)
    return {name: [row for row in rows if row.kind == kind] for name, kind in names}


def _values(form: Posted) -> tuple[bytes, str]:
    if "file" in form.files:
        name, content = form.files["file"]
        return content, "csv" if name.lower().endswith(".csv") else "txt"
    typed = form.text("values")
    if not typed:
        raise RequestError("choose a file, or type the values, one per line")
    return typed.replace("\r\n", "\n").encode("utf-8", "surrogatepass"), "txt"


@api.get("/lists", operation_id="listLists")
def list_lists(service: Service, person: Me) -> dict[str, Any]:
    """List your lists and shared ones, with their latest versions."""
    return {"lists": [shown_list(row) for row in service.lists.all(person)]}


@api.post("/lists", operation_id="createList", status_code=201, openapi_extra=_FILE)
@takes_file
async def create_list(
    request: Request, service: Service, person: Me, asked: Annotated[NewList, Query()]
) -> dict[str, Any]:
    """Store a list: the body is a file with one value per line, or a CSV.

    Kind weights is a CSV of `value,weight`; a line without a value gives the weight of all others.
    Kind flows is a CSV of `origin,destination,count`, a known matrix. Kind areas is a GeoJSON
    FeatureCollection of polygons, whose names are in the property `column`, "name" by default."""
    content = await request.body()
    row = await run_in_threadpool(service.lists.create, person, asked, content)
    return shown_list(row)


@api.get("/lists/{list_id}", operation_id="getList")
def get_list(service: Service, person: Me, list_id: str) -> dict[str, Any]:
    """Return a list and its versions."""
    row = service.lists.get(person, list_id)
    return shown_list(row) | {"versions": [shown(version, VERSION) for version in row.versions]}


@api.get("/lists/{list_id}/content", operation_id="getListContent")
def get_content(
    service: Service,
    person: Me,
    list_id: str,
    version: Number | None = None,
    exact: bool = False,
) -> Response:
    """Return the values in a version (the latest by default), one per line.

    Weights are a CSV of `value,weight`, known flows a CSV of `origin,destination,count`. Formulas
    are removed unless `exact`. Areas are GeoJSON."""
    row = service.lists.get(person, list_id)
    number = row.version(version).number
    content = service.lists.content(person, list_id, number)
    file = FILES[ListKind(row.kind)]
    if file.columns and not exact:
        content = csv_of_texts(content, file.columns)
    name = f"{file.stem}-{list_id}-{number}.{file.suffix}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=file.media_type, headers=headers)


@api.post(
    "/lists/{list_id}/versions", operation_id="addListVersion", status_code=201, openapi_extra=_FILE
)
@takes_file
async def add_version(
    request: Request, person: Me, list_id: str, suffix: Suffix = "txt", column: Text | None = None
) -> dict[str, Any]:
    """Store a new version of your list; the same content does not create a new version."""
    add, content = service_of(request).lists.add_version, await request.body()
    row = await run_in_threadpool(add, person, list_id, content, suffix=suffix, column=column)
    return shown(row, VERSION)


@api.post("/lists/{list_id}/share", operation_id="shareList")
def share(service: Service, person: Me, list_id: str, shared: Flag) -> dict[str, Any]:
    """Share your list with other analysts, or make it private."""
    service.lists.share(person, list_id, shared)
    return shown_list(service.lists.get(person, list_id))


@api.delete("/lists/{list_id}", operation_id="deleteList")
def delete_list(service: Service, person: Me, list_id: str) -> dict[str, Any]:
    """Delete your list and its values; results keep its digest."""
    service.lists.delete(person, list_id)
    return {"deleted": list_id}


@api.get("/aggregates", operation_id="listAggregates")
def list_aggregates(service: Service, person: Me) -> dict[str, Any]:
    """List aggregates that you uploaded or that your jobs have read, newest first."""
    rows = service.aggregates.all(person)
    return {"aggregates": [shown(row, AGGREGATE) for row in rows]}


@api.post("/aggregates", operation_id="uploadAggregate", status_code=201, openapi_extra=_FILE)
@takes_file
async def upload(request: Request, person: Me) -> dict[str, Any]:
    """Store an aggregate file, which jobs name by its digest."""
    content = await request.body()
    row = await run_in_threadpool(service_of(request).aggregates.upload, person, content)
    return shown(row, AGGREGATE)


add_form(pages, "/lists/{list_id}/share", share, back="/lists/{list_id}")
add_form(
    pages,
    "/lists/{list_id}/delete",
    delete_list,
    back="/lists",
    sure="Delete: the values are deleted permanently",
)


def shown_list(row: ListRow) -> dict[str, Any]:
    """Return the public properties of a list, with those of its latest version."""
    latest = shown(row.latest, VERSION)
    public = shown(row, "id name visibility source created kind") | {"owner": row.person.name}
    public |= {name: latest[name] for name in ("sha256", "entries", "size")}
    return public | {"version": latest["number"], "changed": latest["created"]}
