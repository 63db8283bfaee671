"""Stored results: the list, and a result with its pictures, tables and provenance."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder.output.density_html import view_of
from decoder.output.number_text import known
from decoder.output.numbers_svg import edge_text
from decoder.output.tables import TableQuery, query_of
from decoder.workflows.kinds import DecoderKind, decoder_kind
from decoder_service.jobs.specs import JobKind, job_kinds
from decoder_service.lists.rows import ListVersionRow
from decoder_service.people.permissions import Act, Person
from decoder_service.people.quotas import Amount
from decoder_service.results.commands import command_of, counts_of
from decoder_service.results.decode_view import decoding
from decoder_service.results.difference_view import comparison
from decoder_service.results.discovery_view import approved, discover
from decoder_service.results.rows import ResultRow
from decoder_service.results.rules import may_take_back, shown_manifest
from decoder_service.results.series_view import panels_of, parsed_series
from decoder_service.shell.clock import text_of
from decoder_service.shell.errors import NotFoundError, RequestError
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Form, PageNumber, Reader, redirect, render
from decoder_service.shell.web import router as new_router

PAGE = 50
MOST_PANELS = 24
MAP = "map.json"
_TITLES: dict[str, str] = {
    JobKind.DECODE: "Frequencies",
    JobKind.SERIES: "Frequencies over time",
    JobKind.COMPARE: "Difference of two windows",
    JobKind.DENSITY: "Maps",
    JobKind.DISCOVER: "Strings without a list",
}
router = new_router()


@router.get("/results")
def index(
    request: Request, person: Reader, metric: str = "", kind: str = "", page: PageNumber = 1
) -> Response:
    """Results that one may see, newest first."""
    if kind and kind not in job_kinds():
        raise RequestError(f"kind {kind[:20]!a} is not one of {', '.join(job_kinds())}")
    page = max(page, 1)
    rows = service_of(request).results.all(
        person, metric=metric or None, kind=kind or None, limit=PAGE + 1, offset=(page - 1) * PAGE
    )
    return render(
        request,
        "results.html.j2",
        person,
        rows=[_listed(row) for row in rows[:PAGE]],
        more=len(rows) > PAGE,
        page=page,
        metric=metric,
        kind=kind,
        kinds=job_kinds(),
        usage=_usage(request, person),
    )


@router.get("/results/{result_id}")
def one(request: Request, person: Reader, result_id: str) -> Response:
    """A result."""
    results = service_of(request).results
    row = results.get(person, result_id)
    query = query_of(request.query_params)
    shown = _VIEWS.get(row.kind, _own)(request, person, row, query)
    later = results.superseded_by(person, result_id)
    manifest = shown_manifest(row, person)
    own = results.is_own(person, result_id)
    weights = _weights(request, person, manifest)
    return render(
        request,
        f"result_{row.kind}.html.j2" if row.kind in _VIEWS else "result_own.html.j2",
        person,
        title=_TITLES.get(row.kind) or _kind(row.kind).title,
        row=row,
        summary=json.loads(row.summary),
        manifest=manifest,
        files=results.files(person, result_id),
        later=later,
        own=own,
        may_take_back=may_take_back(person, row),
        has_list=_may_open_list(request, person, manifest),
        weights=weights,
        late_weights=weights is not None and _is_late(weights, row),
        command=command_of(manifest, row) if own else "",
        counts=counts_of(manifest) if own else [],
        query=query,
        **shown,
    )


@router.get("/results/{result_id}/map.json")
def map_data(request: Request, person: Reader, result_id: str) -> Response:
    """What the script of a map draws."""
    text = service_of(request).results.file(person, result_id, MAP)
    return Response(text, media_type="application/json")


@router.post("/results/{result_id}/check")
def check(request: Request, person: Reader, result_id: str, form: Form) -> Response:
    """Decode again and compare bytes."""
    del form
    return redirect(f"/jobs/{service_of(request).jobs.check_again(person, result_id).id}")


@router.post("/results/{result_id}/release")
def release(request: Request, person: Reader, result_id: str, form: Form) -> Response:
    """Show a result to every viewer, or take it back."""
    service_of(request).results.release(person, result_id, bool(form.text("released")))
    return redirect(f"/results/{result_id}")


@router.post("/results/{result_id}/keep")
def keep(request: Request, person: Reader, result_id: str, form: Form) -> Response:
    """Make a list of those strings of a discovery that a person has read and ticked."""
    service = service_of(request)
    if not service.results.is_own(person, result_id):
        raise NotFoundError(f"there is no result {result_id[:40]!a} of yours")
    content = service.results.file(person, result_id, "discovered.json")
    values = approved(content, form.all("id"))
    if not values:
        raise RequestError("no string is ticked: tick those that may be shown")
    text = "".join(f"{value}\n" for value in values).encode("utf-8", "surrogatepass")
    source = f"strings of result {result_id}, read by {person.name}"
    made = service.lists.create(person, form.text("name"), text, source=source[:1000])
    return redirect(f"/lists/{made.id}")


@router.post("/results/{result_id}/give-up")
def give_up(request: Request, person: Reader, result_id: str, form: Form) -> Response:
    """Give up a result, once that was confirmed."""
    if not form.text("sure"):
        raise RequestError("tick the box beside Give up: what nobody holds is gone for good")
    service_of(request).results.give_up(person, result_id)
    return redirect("/results")


def _listed(row: ResultRow) -> tuple[ResultRow, dict[str, Any], str]:
    """A result, its summary, and what was found in a few words."""
    summary = json.loads(row.summary)
    return row, summary, _found(row.kind, summary)


def _found(kind: str, summary: dict[str, Any]) -> str:
    own = decoder_kind(kind)
    if own is not None:
        return own.in_list(summary)
    of_series = decoder_kind(summary.get("metric_kind"))
    if of_series is not None:
        return of_series.series_in_list(summary)
    match kind:
        case JobKind.DENSITY:
            return f"{summary['num_maps']} maps of {summary['num_cells']:,} cells"
        case JobKind.DISCOVER:
            return f"{summary['num_found']:,} strings found"
    if "num_detected" in summary:
        return f"{summary['num_detected']:,} of {summary['num_candidates']:,} found"
    return ""


def _usage(request: Request, person: Person) -> Amount | None:
    """Bytes of one's own results; None of who holds none."""
    if not person.may(Act.ANALYSE):
        return None
    return service_of(request).usage.of(person)["result_bytes"]


def _may_open_list(request: Request, person: Person, manifest: dict[str, Any]) -> bool:
    """Whether the list of a result is there for this person."""
    listed = manifest.get("spec", {}).get("candidates", {}).get("list")
    if listed is None:
        return False
    try:
        service_of(request).lists.get(person, listed)
    except NotFoundError:
        return False
    return True


def _weights(request: Request, person: Person, manifest: dict[str, Any]) -> ListVersionRow | None:
    """The weights of a result, if their list is there for this person."""
    given = manifest.get("spec", {}).get("weights") or {}
    if not given:
        return None
    try:
        return service_of(request).lists.version(person, given["list"], given["version"])
    except NotFoundError:
        return None


def _is_late(weights: ListVersionRow, row: ResultRow) -> bool:
    """Whether weights were stored when the last day of the counts was over."""
    return row.last_day is not None and text_of(weights.created)[:10] > row.last_day


def _decode(request: Request, person: Person, row: ResultRow, query: TableQuery) -> dict[str, Any]:
    results = service_of(request).results
    whole = query.all and results.is_own(person, row.id)
    return decoding(
        found=json.loads(results.file(person, row.id, "results.json")),
        manifest=json.loads(results.file(person, row.id, "manifest.json")),
        candidates=results.file(person, row.id, "candidates.parquet") if whole else None,
        query=query,
    )


def _series(request: Request, person: Person, row: ResultRow, query: TableQuery) -> dict[str, Any]:
    series = parsed_series(service_of(request).results.file(person, row.id, "series.json"))
    names, panels = panels_of(series, MOST_PANELS)
    wanted = [one for one in panels if query.q.casefold() in one.value.casefold()]
    shown = {"names": names, "panels": wanted, "reports": series.reports}
    return shown | {"means": series.means, "unit": series.unit, "known": known, "edge": edge_text}


def _compare(request: Request, person: Person, row: ResultRow, query: TableQuery) -> dict[str, Any]:
    content = json.loads(service_of(request).results.file(person, row.id, "compare.json"))
    return comparison(content["rows"], query) | {"windows": content["windows"]}


def _density(request: Request, person: Person, row: ResultRow, query: TableQuery) -> dict[str, Any]:
    del query
    files = {file.name for file in service_of(request).results.files(person, row.id)}
    if MAP not in files:  # of pairs of places there are tables alone
        return {"has_map": False}
    data = json.loads(service_of(request).results.file(person, row.id, MAP))
    return {"has_map": True, "data_url": f"/results/{row.id}/map.json", **view_of(data)}


def _own(request: Request, person: Person, row: ResultRow, query: TableQuery) -> dict[str, Any]:
    kind = _kind(row.kind)
    content = json.loads(service_of(request).results.file(person, row.id, "results.json"))
    return {"template": kind.template, **kind.view(content, query)}


def _kind(name: str) -> DecoderKind:
    """The kind of metric of a result. Raises NotFoundError where it has no decoder here."""
    kind = decoder_kind(name)
    if kind is None:
        raise NotFoundError(
            f"no decoder of kind {name[:40]!a} is installed here; its files are kept"
        )
    return kind


def _discover(
    request: Request, person: Person, row: ResultRow, query: TableQuery
) -> dict[str, Any]:
    return discover(service_of(request).results.file(person, row.id, "discovered.json"), query)


_VIEWS: dict[str, Callable[[Request, Person, ResultRow, TableQuery], dict[str, Any]]] = {
    JobKind.DECODE: _decode,
    JobKind.SERIES: _series,
    JobKind.COMPARE: _compare,
    JobKind.DENSITY: _density,
    JobKind.DISCOVER: _discover,
}
