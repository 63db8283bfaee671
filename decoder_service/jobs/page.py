"""Pages for jobs: start a job with a form, watch it, cancel it."""

import json
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from decoder.inference.multiple_testing import CORRECTIONS
from decoder.kinds.interface import DECODERS, KindDecoder, decoder_of, has_candidates
from decoder.options import FlowOptions
from decoder_service.jobs.form import LABELS, percent_of_share, spec_of_form
from decoder_service.jobs.specs import JobSpec
from decoder_service.lists.page import lists_by_kind
from decoder_service.metrics.rules import has_own_values
from decoder_service.people.permissions import Act, require
from decoder_service.shell.database import matching, shown
from decoder_service.shell.errors import ServiceError
from decoder_service.shell.models import LIVE, JobRow, JobState
from decoder_service.shell.requests import GuardedRoute, Me, Paging, Service
from decoder_service.shell.web import (
    Form,
    PageNumber,
    Posted,
    Visit,
    add_form,
    page_router,
    redirect,
)
from rappor_server.errors import RequestError

pages = page_router()
api = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=GuardedRoute)


@pages.get("/jobs")
def index(visit: Visit, state: JobState | None = None, page: PageNumber = 1) -> Response:
    """Show the page of your jobs; for an admin, of all jobs."""
    content = visit.rows(visit.service.jobs, page, *matching(JobRow, state=state))
    return visit.render(
        "jobs.html.j2",
        **content | {"rows": [(row, percent_done(row)) for row in content["rows"]]},
        state=state,
        states=list(JobState),
        live=any(row.state in LIVE for row in content["rows"]),
        workers=_workers(visit),
    )


@pages.get("/jobs/new")
def new(visit: Visit, operation: str = "", kind: str = "", metric: str = "") -> Response:
    """Show the form for a new job, with the fields of the metric's kind, and its days."""
    require(visit.person, Act.ANALYZE)
    if operation == "compare":
        return redirect("/compare")
    query = {name: visit.request.query_params.getlist(name) for name in visit.request.query_params}
    listed = known_metric(visit, metric)
    task = Asked(operation or "decode", _kind_of(listed) or kind or "string")
    days = listed.get("served") or {}
    texts = {name: [day] for name in ("first", "last") if (day := days.get(f"{name}_day"))}
    return _form(visit, task, Posted({"metric": [metric], **texts, **query}, {}))


@pages.post("/jobs")
def post_job(visit: Visit, form: Form) -> Response:
    """Queue a job; show errors above the form, which keeps its contents."""
    metric = "" if form.all("aggregates") else form.text("metric")
    kind = _kind_of(known_metric(visit, metric)) or form.text("kind") or "string"
    task = Asked(form.text("operation") or "decode", kind)
    try:
        spec = spec_of_form(task.operation, task.decoder, form)
        row = visit.service.jobs.submit(visit.person, spec)
    except ServiceError as error:
        if task.operation == "compare":  # the button of /compare
            raise
        return _form(visit, task, form, error)
    return redirect(f"/jobs/{row.id}")


@dataclass(frozen=True)
class Asked:
    """The operation and metric kind of a form. Raises RequestError if they do not fit."""

    operation: str
    kind: str

    def __post_init__(self) -> None:
        if self.operation not in self.decoder.operations:
            raise RequestError(
                f"operation {self.operation[:20]!a} is not one of a metric of kind {self.kind}: "
                f"{', '.join(self.decoder.operations)}"
            )

    @property
    def decoder(self) -> KindDecoder:
        """The decoder of the kind."""
        return decoder_of(self.kind)


def known_metric(visit: Visit, name: str) -> dict[str, Any]:
    """Return a metric's current version as the collector lists it; empty if it is not listed.

    For a location, `name` is the declared name, without slot and level."""
    listed = sorted(visit.service.metrics.latest()[0], key=lambda row: str(row["name"]))
    mine = [row for row in listed if name in (row["name"], row["name"].partition("/")[0])]
    current = [row for row in mine if row["state"] == "current"]
    return (current or mine or [{}])[-1]


def _kind_of(listed: dict[str, Any]) -> str:
    return str(listed.get("definition", {}).get("kind", ""))


@pages.get("/jobs/{job_id}")
def one(visit: Visit, job_id: str) -> Response:
    """Show the page of a job: state, progress, outcome."""
    service = visit.service
    row = service.jobs.get(visit.person, job_id)
    return visit.render(
        "job.html.j2",
        row=row,
        done=percent_done(row),
        live=row.state in LIVE,
        spec=said(row.spec),
        workers=_workers(visit) if row.state == JobState.QUEUED else None,
    )


def said(spec: str, *names: str) -> str:
    """Format a job's JSON specification, or only the named members, without default values."""
    job = JobSpec.model_validate_json(spec)
    options = job.options.model_dump(mode="json", exclude_none=True)
    parts = {"operation": job.operation, **job.model_dump(mode="json", exclude_defaults=True)}
    parts |= {"options": options}
    return json.dumps({name: parts[name] for name in names or parts if name in parts}, indent=2)


def percent_done(row: JobRow) -> int | None:
    """Return the progress of the current stage in percent; None if unknown."""
    return round(100 * min(row.done / row.total, 1)) if row.total > 0 else None


def _form(visit: Visit, task: Asked, texts: Posted, error: ServiceError | None = None) -> Response:
    service, metric = visit.service, texts.text("metric")
    entry, aggregates = known_metric(visit, metric), service.aggregates.all(visit.person)
    # The possible operations for the metric, or for any metric; kinds with one decoder are merged.
    alike = {id(decoder_of(name)): name for name in reversed(DECODERS)}
    kinds = [task.kind] if entry else reversed(alike.values())
    return visit.render_form(
        "new_job.html.j2",
        error,
        asked=task,
        kind=task.decoder,
        has_candidates=has_candidates(task.kind),
        tabs=[Asked(operation, name) for name in kinds for operation in decoder_of(name).operations
              if operation != "compare"],
        known=entry,
        needs_list=bool(entry) and has_candidates(task.kind)
        and not has_own_values(entry["definition"]),
        percent_of_share=percent_of_share,
        labels=LABELS,
        given=texts,
        **lists_by_kind(service.lists.all(visit.person)),
        aggregates=[
            aggregate
            for aggregate in aggregates
            if (aggregate.kind or "string") in DECODERS
            and decoder_of(aggregate.kind or "string") is task.decoder  # and therefore one form
            and (not metric or aggregate.metric.partition("/")[0] == metric.partition("/")[0])
        ],
        metrics=sorted({m["name"].partition("/")[0] for m in service.metrics.latest()[0]}),
        has_collector=service.settings.collector is not None,
        corrections=CORRECTIONS,
        usual_flows=FlowOptions(),
    )  # fmt: skip


def _workers(visit: Visit) -> bool:
    try:
        return bool(visit.service.check_ready())
    except ServiceError:
        return False


@api.post("", operation_id="submitJob", status_code=202)
def submit(service: Service, person: Me, body: JobSpec) -> dict[str, Any]:
    """Queue a job, or return your identical job if it is queued or running."""
    return shown_job(service.jobs.submit(person, body))


@api.get("", operation_id="listJobs")
def list_jobs(
    service: Service, person: Me, paging: Paging, state: JobState | None = None
) -> dict[str, Any]:
    """List your jobs, newest first; for an admin, all jobs."""
    rows = service.jobs.all(person, *matching(JobRow, state=state), **paging)
    return {"jobs": [shown_job(row) for row in rows]}


@api.get("/{job_id}", operation_id="getJob")
def get_job(service: Service, person: Me, job_id: str) -> dict[str, Any]:
    """Return a job: its state, progress, and outcome."""
    return shown_job(service.jobs.get(person, job_id))


@api.post("/{job_id}/cancel", operation_id="cancelJob")
def cancel(service: Service, person: Me, job_id: str) -> dict[str, Any]:
    """Request the end of a job; a job that has ended does not change."""
    return shown_job(service.jobs.cancel(person, job_id))


add_form(pages, "/jobs/{job_id}/cancel", cancel, back="/jobs/{job_id}")


def shown_job(row: JobRow) -> dict[str, Any]:
    """Return the properties of a job that its owner may see, without the worker that holds it."""
    public = shown(
        row,
        "id operation metric state stage done total attempt max_attempts reason result_id "
        "created started ended",
    )
    return public | {"spec": json.loads(row.spec), "owner": row.person.name}
