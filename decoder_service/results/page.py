"""Stored results: the list, and a result with its pictures, tables and provenance."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from decoder.kinds.discover import kept_strings
from decoder.kinds.interface import DECODERS, decoder_of
from decoder.kinds.result import RESULTS, StoredResult
from decoder.kinds.run import page_parts
from decoder.options import Operation
from decoder.tables.paging import query_of
from decoder.tables.table import csv_of_parquet
from decoder_service.jobs.rules import LISTS
from decoder_service.jobs.specs import MetricName
from decoder_service.lists.rules import NewList
from decoder_service.people.permissions import Act
from decoder_service.results.rules import (
    may_take_back,
    media_type,
    shown_manifest,
    shown_result,
)
from decoder_service.shell.database import matching
from decoder_service.shell.errors import NotFoundError, RequestError
from decoder_service.shell.models import ListVersionRow, ResultRow
from decoder_service.shell.operations import text_of
from decoder_service.shell.requests import Flag, GuardedRoute, Me, Paging, Service
from decoder_service.shell.web import (
    Form,
    PageNumber,
    Visit,
    add_form,
    page_router,
    parsed,
    redirect,
)

api = APIRouter(prefix="/v1/results", tags=["results"], route_class=GuardedRoute)
# A stored page may run its own script, but as of no site: it reaches neither session nor API.
FILE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:"
)
Format = Literal["json", "csv", "parquet", "geojson"]
pages = page_router()


@api.get("", operation_id="listResults")
def list_results(
    service: Service,
    person: Me,
    paging: Paging,
    metric: Annotated[MetricName | None, Query()] = None,
    kind: Annotated[str | None, Query(max_length=32)] = None,
    operation: Operation | None = None,
) -> dict[str, Any]:
    """Results that you may see, newest first."""
    which = matching(ResultRow, metric=metric, kind=kind, operation=operation)
    rows = service.results.all(person, *which, **paging)
    return {"results": [shown_result(row, person) for row in rows]}


@api.get("/{result_id}", operation_id="getResult")
def get_result(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """A result: manifest, summary, files, and which one supersedes it."""
    view = service.results.view(person, result_id)
    return shown_result(view.row, person) | {
        "superseded_by": None if view.later is None else view.later.id,
        "files": [dict(file._mapping) for file in view.files],
    }


@api.get("/{result_id}/data", operation_id="getResultData")
def get_data(
    service: Service,
    person: Me,
    result_id: str,
    form: Annotated[Format, Query(alias="format")],
    exact: bool = False,
) -> Response:
    """The main table of a result in a format that its kind has; csv as of `getResultFile`."""
    row = service.results.get(person, result_id)
    table = decoder_of(row.kind).table_of(row.operation)
    name = RESULTS if form == "json" else f"{table}.{form}"  # as JSON all that was found
    return get_file(service, person, result_id, name, exact)


@api.get("/{result_id}/files/{name}", operation_id="getResultFile")
def get_file(
    service: Service,
    person: Me,
    result_id: str,
    name: Annotated[str, Path(max_length=64)],
    exact: bool = False,
) -> Response:
    """A file of a result; a CSV without formulas of spreadsheets, or exact: its stored bytes."""
    results = service.results
    if name.endswith(".csv") and not exact:
        typed = name.removesuffix("csv") + "parquet"
        if typed in {file.name for file in results.view(person, result_id).files}:
            return _download(csv_of_parquet(results.file(person, result_id, typed)), name)
    return _download(results.file(person, result_id, name), name)


@api.post("/{result_id}/release", operation_id="releaseResult")
def release(service: Service, person: Me, result_id: str, released: Flag) -> dict[str, Any]:
    """Show a result of yours to every viewer, or take it back."""
    row = service.results.release(person, result_id, released)
    return shown_result(row, person)


@api.delete("/{result_id}", operation_id="giveUpResult")
def give_up(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """Give up a result of yours; it is deleted once nobody holds it, or by an admin."""
    gone = service.results.give_up(person, result_id)
    return {"given_up": result_id, "deleted": gone}


def _download(content: bytes, name: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": FILE_POLICY,
    }
    return Response(content, media_type=media_type(name), headers=headers)


@pages.get("/results")
def index(visit: Visit, metric: str = "", kind: str = "", page: PageNumber = 1) -> Response:
    """Results that one may see, newest first."""
    which = matching(ResultRow, metric=metric, kind=kind)
    return visit.render(
        "results.html.j2",
        **visit.rows(visit.service.results, page, *which),
        metric=metric,
        kind=kind,
        kinds=list(DECODERS),
        usage=visit.service.access.usage(visit.person)["result_bytes"]
        if visit.person.may(Act.ANALYZE)
        else None,
    )


@pages.get("/results/{result_id}")
def one(visit: Visit, result_id: str) -> Response:
    """A result."""
    results = visit.service.results
    found = results.view(visit.person, result_id)
    row, own, kind = found.row, found.own, decoder_of(found.row.kind)
    query = query_of(visit.request.query_params)
    stored = StoredResult(
        row.operation, frozenset(file.name for file in found.files),
        lambda name: results.file(visit.person, result_id, name), own, f"/results/{result_id}",
    )  # fmt: skip
    parts = page_parts(kind, stored, query)
    manifest = shown_manifest(row, visit.person)
    lists = {name: _list_version(visit, manifest, name) for name in LISTS}
    return visit.render(
        "result.html.j2",
        kind=kind,
        title=kind.title_of(row.operation),
        view=parts,
        row=row,
        manifest=manifest,
        files=found.files,
        later=found.later,
        own=own,
        may_take_back=may_take_back(visit.person, row),
        lists=lists,
        late_weights=bool(  # stored when the last day of the counts was over
            (one := lists["weights"]) and row.last_day and text_of(one.created)[:10] > row.last_day
        ),
        query=query,
        **parts.variables,
    )


@pages.get("/results/{result_id}/map.json")
def map_data(service: Service, person: Me, result_id: str) -> Response:
    """What the script of a map draws."""
    text = service.results.file(person, result_id, "map.json")
    return Response(text, media_type="application/json")


@pages.post("/results/{result_id}/keep")
def keep(service: Service, person: Me, result_id: str, form: Form) -> Response:
    """Make a list of those strings of a discovery that a person has read and ticked."""
    if not service.results.view(person, result_id).own:
        raise NotFoundError(f"there is no result {result_id[:40]!a} of yours")
    content = service.results.file(person, result_id, RESULTS)
    values = kept_strings(content, form.all("id"))
    if not values:
        raise RequestError("no string is ticked: tick those that may be shown")
    text = "".join(f"{value}\n" for value in values).encode("utf-8", "surrogatepass")
    source = f"strings of result {result_id}, read by {person.name}"
    asked = parsed(NewList, {"name": form.text("name"), "source": source[:1000]})
    made = service.lists.create(person, asked, text)
    return redirect(f"/lists/{made.id}")


add_form(pages, "/results/{result_id}/release", release, back="/results/{result_id}")
add_form(
    pages,
    "/results/{result_id}/give-up",
    give_up,
    back="/results",
    sure="Give up: what nobody holds is gone for good",
)


def _list_version(visit: Visit, manifest: dict[str, Any], member: str) -> ListVersionRow | None:
    """The version of a list that a result was made with, if it is there for this person."""
    given = manifest.get("spec", {}).get(member) or {}
    if not given.get("list"):
        return None
    try:
        return visit.service.lists.version(visit.person, given["list"], given["version"])
    except NotFoundError:
        return None
