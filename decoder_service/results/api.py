"""Stored results: look at, download, release, check."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from decoder.options import Operation
from decoder.tables.table import csv_of_parquet
from decoder_service.jobs.page import shown_job
from decoder_service.jobs.specs import MetricName, StrictModel
from decoder_service.results.rules import counts_name, main_file, media_type, shown_result
from decoder_service.shell.database import matching
from decoder_service.shell.models import ResultRow
from decoder_service.shell.requests import GuardedRoute, Limit, Me, Offset, Service

api = APIRouter(prefix="/v1/results", tags=["results"], route_class=GuardedRoute)
# A stored page may run its own script, but as of no site: it reaches neither session nor API.
FILE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:"
)
Form = Literal["json", "csv", "parquet", "geojson"]


class ResultVisibility(StrictModel):
    """Whether every viewer sees it."""

    released: bool


@api.get("", operation_id="listResults")
def list_results(
    service: Service,
    person: Me,
    metric: Annotated[MetricName | None, Query()] = None,
    kind: Annotated[str | None, Query(max_length=32)] = None,
    operation: Operation | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Results that you may see, newest first."""
    which = matching(ResultRow, metric=metric, kind=kind, operation=operation)
    rows = service.results.all(person, *which, limit=limit, offset=offset)
    return {"results": [shown_result(row, person) for row in rows]}


@api.get("/{result_id}", operation_id="getResult")
def get_result(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """A result: manifest, summary, files, and which one supersedes it."""
    view = service.results.view(person, result_id)
    return shown_result(view.row, person) | {
        "superseded_by": None if view.later is None else view.later.id,
        "files": [asdict(file) for file in view.files],
    }


@api.get("/{result_id}/data", operation_id="getResultData")
def get_data(
    service: Service,
    person: Me,
    result_id: str,
    form: Annotated[Form, Query(alias="format")],
    exact: bool = False,
) -> Response:
    """The main table of a result in a format that its kind has; csv as of `getResultFile`."""
    name = main_file(service.results.get(person, result_id), form)
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


@api.get("/{result_id}/counts/{sha256}", operation_id="getResultCounts")
def get_counts(
    service: Service,
    person: Me,
    result_id: str,
    sha256: Annotated[str, Path(max_length=64)],
) -> Response:
    """An aggregate file that a result of yours was made of, by its digest in `inputs`."""
    content = service.results.counts(person, result_id, sha256)
    return _download(content, counts_name(sha256))


@api.post("/{result_id}/release", operation_id="releaseResult")
def release(service: Service, person: Me, result_id: str, body: ResultVisibility) -> dict[str, Any]:
    """Show a result of yours to every viewer, or take it back."""
    row = service.results.release(person, result_id, body.released)
    return shown_result(row, person)


@api.delete("/{result_id}", operation_id="giveUpResult")
def give_up(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """Give up a result of yours; it is deleted once nobody holds it, or by an admin."""
    gone = service.results.give_up(person, result_id)
    return {"given_up": result_id, "deleted": gone}


@api.post("/{result_id}/check", operation_id="checkResult", status_code=202)
def check(service: Service, person: Me, result_id: str) -> dict[str, Any]:
    """Queue a job that decodes it again and compares the bytes of its files."""
    return shown_job(service.jobs.check_again(person, result_id))


def _download(content: bytes, name: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": FILE_POLICY,
    }
    return Response(content, media_type=media_type(name), headers=headers)
