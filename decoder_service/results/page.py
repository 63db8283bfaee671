"""Pages and routes for stored results: the list, one result, and comparisons."""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import product
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from decoder.kinds.discover import kept_strings
from decoder.kinds.interface import DECODERS, decoder_of, kinds_with
from decoder.kinds.location import MAP, MAP_CHANGES
from decoder.kinds.result import RESULTS, StoredResult
from decoder.kinds.run import page_parts
from decoder.options import Operation
from decoder.output.density_html import changes_view
from decoder.tables.paging import query_of
from decoder.tables.table import csv_of_parquet
from decoder_service.jobs.form import form_fields
from decoder_service.jobs.rules import LISTS
from decoder_service.jobs.specs import MetricName
from decoder_service.lists.rules import NewList
from decoder_service.people.permissions import Act
from decoder_service.results.rules import MEDIA_TYPES, may_take_back, shown_manifest, shown_result
from decoder_service.shell.database import matching
from decoder_service.shell.models import ListVersionRow, ResultRow
from decoder_service.shell.requests import Flag, GuardedRoute, Me, Paging, Service
from decoder_service.shell.web import (
    Form,
    PageNumber,
    Visit,
    add_form,
    address,
    page_router,
    parsed,
    redirect,
)
from rappor_server.errors import NotFoundError, RequestError

api = APIRouter(prefix="/v1/results", tags=["results"], route_class=GuardedRoute)
# A stored page may run its own script in a sandbox without access to the session or the API.
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
    """Return the results that you may see, newest first."""
    which = matching(ResultRow, metric=metric, kind=kind, operation=operation)
    rows = service.results.all(person, *which, **paging)
    return {"results": [shown_result(row, person) for row in rows]}


@api.get("/{result_id}", operation_id="getResult")
def get_result(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """Return a result: its manifest, summary, files, and the result that supersedes it."""
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
    """Return the main table of a result in a format that its kind supports.

    A CSV is served in the same way as by `getResultFile`."""
    row = service.results.get(person, result_id)
    table = decoder_of(row.kind).table_of(row.operation)
    name = RESULTS if form == "json" else f"{table}.{form}"  # JSON has the whole result
    return get_file(service, person, result_id, name, exact)


@api.get("/{result_id}/files/{name}", operation_id="getResultFile")
def get_file(
    service: Service,
    person: Me,
    result_id: str,
    name: Annotated[str, Path(max_length=64)],
    exact: bool = False,
) -> Response:
    """Return a file of a result.

    In a CSV file, cells that spreadsheets read as formulas are escaped, unless `exact` asks for the
    stored bytes."""
    results = service.results
    if name.endswith(".csv") and not exact:
        typed = name.removesuffix("csv") + "parquet"
        if typed in {file.name for file in results.view(person, result_id).files}:
            return download(csv_of_parquet(results.file(person, result_id, typed)), name)
    return download(results.file(person, result_id, name), name)


@api.post("/{result_id}/release", operation_id="releaseResult")
def release(service: Service, person: Me, result_id: str, released: Flag) -> dict[str, Any]:
    """Show your result to every viewer, or take it back."""
    row = service.results.release(person, result_id, released)
    return shown_result(row, person)


@api.delete("/{result_id}", operation_id="giveUpResult")
def give_up(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """Remove a result from your account; it is deleted when no account has it, or by an admin."""
    gone = service.results.give_up(person, result_id)
    return {"given_up": result_id, "deleted": gone}


def download(content: bytes, name: str) -> Response:
    """Return a file of a result or release as a download."""
    media_type = MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": FILE_POLICY,
    }
    return Response(content, media_type=media_type, headers=headers)


@pages.get("/results")
def index(visit: Visit, metric: str = "", kind: str = "", page: PageNumber = 1) -> Response:
    """Show the results that the visitor may see, newest first."""
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
    """Show a result with its pictures, tables and provenance."""
    results = visit.service.results
    content = results.view(visit.person, result_id)
    row, is_own, kind = content.row, content.own, decoder_of(content.row.kind)
    query = query_of(visit.request.query_params)
    stored = StoredResult(
        row.operation, frozenset(file.name for file in content.files),
        lambda name: results.file(visit.person, result_id, name), is_own, f"/results/{result_id}",
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
        files=content.files,
        later=content.later,
        own=is_own,
        may_take_back=may_take_back(visit.person, row),
        lists=lists,
        query=query,
        **parts.variables,
    )


@pages.get("/results/{result_id}/map.json")
def map_data(service: Service, person: Me, result_id: str) -> Response:
    """Return the data of a map for its script."""
    text = service.results.file(person, result_id, "map.json")
    return Response(text, media_type="application/json")


@pages.post("/results/{result_id}/keep")
def keep(service: Service, person: Me, result_id: str, form: Form) -> Response:
    """Create a list from the discovered strings that a person has read and checked."""
    if not service.results.view(person, result_id).own:
        raise NotFoundError(f"there is no result {result_id[:40]!a} of yours")
    content = service.results.file(person, result_id, RESULTS)
    values = kept_strings(content, form.all("id"))
    if not values:
        raise RequestError("no string is selected: select the strings that may be shown")
    text = "".join(f"{value}\n" for value in values).encode("utf-8", "surrogatepass")
    source = f"strings of result {result_id}, read by {person.name}"
    spec = parsed(NewList, {"name": form.text("name"), "source": source[:1000]})
    row = service.lists.create(person, spec, text)
    return redirect(f"/lists/{row.id}")


add_form(pages, "/results/{result_id}/release", release, back="/results/{result_id}")
add_form(
    pages,
    "/results/{result_id}/give-up",
    give_up,
    back="/results",
    sure="Remove: a result that no account has is deleted permanently",
)


def _list_version(visit: Visit, manifest: dict[str, Any], member: str) -> ListVersionRow | None:
    """Return the list version used for a result, or None if this person cannot see it."""
    choice = manifest.get("spec", {}).get(member) or {}
    if not choice.get("list"):
        return None
    try:
        return visit.service.lists.get(visit.person, choice["list"]).version(choice["version"])
    except NotFoundError:
        return None


MAX_CHOICES = 200  # Results offered for comparison


@pages.get("/compare")
def compare(visit: Visit, before: str = "", after: str = "") -> Response:
    """Show the form for comparing two results, or the stored comparison of maps."""
    results = visit.service.results
    choices = [
        row
        for kind in kinds_with("compare")
        for row in results.all(
            visit.person, *matching(ResultRow, kind=kind, operation="decode"), limit=MAX_CHOICES
        )
    ]
    before, after = (before, after) if before else next(_neighbors(choices, after), ("", after))
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


def _neighbors(choices: Sequence[ResultRow], after: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of adjacent windows of one metric and length, (earlier, later), newest first.

    `after` is the chosen later result, or "" for any."""
    windows = [(date.fromisoformat(one.first_day), date.fromisoformat(one.last_day), one)
               for one in choices if one.first_day and one.last_day]  # fmt: skip
    windows.sort(key=lambda window: window[1], reverse=True)
    for (first, last, later), (start, end, earlier) in product(windows, windows):
        alike = (later.metric, later.params_id) == (earlier.metric, earlier.params_id)
        if alike and end < first and end - start == last - first and after in ("", later.id):
            yield earlier.id, later.id


@pages.get("/compare/map.json")
def changes_data(visit: Visit, result: str) -> Response:
    """Return the data of a map of changes for its script, as JSON."""
    data = _changes(visit, visit.service.results.get(visit.person, result))
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), media_type="application/json")


def _changes(visit: Visit, row: ResultRow) -> dict[str, Any]:
    """Return the data of a map of changes. Raises RequestError for a result without them."""
    results = visit.service.results
    if not _has_maps(row):
        raise RequestError(f"result {row.id} is of kind {row.kind}; only locations have maps")
    if MAP_CHANGES not in {file.name for file in results.view(visit.person, row.id).files}:
        raise RequestError("its maps show one window each: there are no changes between windows")
    drawn, changes = (
        json.loads(results.file(visit.person, row.id, name)) for name in (MAP, MAP_CHANGES)
    )
    return {**drawn, **changes}


def job_fields(before: ResultRow, after: ResultRow) -> list[tuple[str, str]]:
    """Return the form fields, as (name, value), of a job that compares two results' counts.

    Lists and options are those of the later result. Raises RequestError if no job can compare
    the results."""
    if before.kind != after.kind or "compare" not in decoder_of(after.kind).operations:
        raise RequestError(
            f"results of kinds {before.kind} and {after.kind}: compare two results of one kind, of "
            f"{', '.join(kinds_with('compare'))}"
        )
    if before.metric != after.metric:
        raise RequestError(f"{before.metric!a} and {after.metric!a} are different metrics")
    if before.params_id != after.params_id:
        raise RequestError(
            "these results are of different versions of the metric: their reports have different "
            "meanings, and a difference may come from the changed declaration"
        )
    days = [day or "" for row in (before, after) for day in (row.first_day, row.last_day)]
    if not all(days) or (days[0] <= days[3] and days[2] <= days[1]):
        raise RequestError("the results share days, so they are not independent; choose others")
    manifests = [json.loads(result.manifest) for result in (before, after)]
    old, new = (
        [sha for group in manifest["inputs"]["aggregates"] for sha in group]
        for manifest in manifests
    )
    fields = [("operation", "compare"), ("kind", after.kind)]
    fields += [("before_aggregates", sha) for sha in old]
    fields += [("aggregates", sha) for sha in new]
    return fields + form_fields(manifests[1]["spec"])


def _has_maps(row: ResultRow) -> bool:
    return "map" in decoder_of(row.kind).members
