"""Pages of jobs: start one with a form, watch it, cancel it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from decoder.inference.multiple_testing import CORRECTIONS
from decoder.kinds.interface import DECODERS, KindDecoder, has_candidates
from decoder.options import FlowOptions
from decoder_service.jobs.checks import kind_decoder
from decoder_service.jobs.form import LABELS, LEVELS, percent_of_share, spec_of_form
from decoder_service.jobs.known_counts import KnownCounts, counts_of_version
from decoder_service.jobs.rows import LIVE, JobRow, JobState
from decoder_service.jobs.specs import JobSpec
from decoder_service.lists.page import as_ids, as_names, lists_by_kind, unique_names, with_names
from decoder_service.people.permissions import Act, Person, require
from decoder_service.shell.errors import FieldError, RequestError, ServiceError
from decoder_service.shell.problems import status_of
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import (
    Form,
    PageNumber,
    Posted,
    Reader,
    redirect,
    render,
)
from decoder_service.shell.web import (
    router as new_router,
)
from rappor_core.errors import RapporError

PAGE = 50
router = new_router()
HEADINGS = {
    "source": "Counts",
    "before": "Counts of the earlier window",
    "candidates": "Values to look for",
    "weights": "Weights",
    "each": "Length of a window",
    "known": "Known flows",
    "areas": "Areas",
    "flows": "Which flows are shown",
    "crowd": "Smallest crowd",
}
_PARTS = {"method": "estimator", "split": "one map a"}
_USUAL = (("full_fit", True), ("largest_p", 1.0))  # which no form asks
_USUAL_SPEC = {name: JobSpec.model_fields[name].get_default() for name in
               ("candidates", "map", "flows", "crowd", "each")}  # fmt: skip
_USUAL_SPEC = {name: one.model_dump(mode="json") if isinstance(one, BaseModel) else one
               for name, one in _USUAL_SPEC.items()}  # fmt: skip
DIGEST = re.compile(r"[0-9a-f]{64}")


@router.get("/jobs")
def index(request: Request, person: Reader, state: str = "", page: PageNumber = 1) -> Response:
    """The page of one's own jobs; for an admin of all jobs."""
    if state and state not in set(JobState):
        raise RequestError(f"state {state[:20]!a} is not one of {', '.join(JobState)}")
    rows = service_of(request).jobs.all(
        person,
        state=JobState(state) if state else None,
        limit=PAGE + 1,
        offset=(max(page, 1) - 1) * PAGE,
    )
    return render(
        request,
        "jobs.html.j2",
        person,
        rows=[(row, percent_done(row)) for row in rows[:PAGE]],
        more=len(rows) > PAGE,
        page=max(page, 1),
        state=state,
        states=list(JobState),
        live=any(row.state in LIVE for row in rows),
        workers=_workers(request),
    )


@router.get("/jobs/new")
def new(
    request: Request, person: Reader, operation: str = "", kind: str = "", metric: str = ""
) -> Response:
    """The page with the form for a new job: with the fields of the metric's kind, and its days."""
    require(person, Act.ANALYSE)
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    known = known_metric(request, person, metric)
    asked = _asked(operation, (known and known.kind) or kind)
    days = _served_days(known, asked.operation == "compare")
    return _form(request, person, asked, Posted({"metric": [metric], **days, **given}, {}), "")


@router.post("/jobs")
def submit(request: Request, person: Reader, form: Form) -> Response:
    """Queue a job; what is wrong is said above the form, which keeps what was typed."""
    asked = _asked(form.text("operation"), form.text("kind"))
    try:
        lists = service_of(request).lists.all(person)
        spec = spec_of_form(asked.operation, asked.decoder, as_ids(form, lists))
        row = service_of(request).jobs.submit(person, spec)
    except RapporError as error:
        if status_of(error) not in (404, 422, 429, 503) or not isinstance(error, ServiceError):
            raise
        field = error.field if isinstance(error, FieldError) else ""
        return _form(request, person, asked, form, str(error), status_of(error), field)
    return redirect(f"/jobs/{row.id}")


@dataclass(frozen=True)
class Asked:
    """What a form is for: an operation on counts of a kind of metric."""

    operation: str
    kind: str

    @property
    def decoder(self) -> KindDecoder:
        """The decoder of the kind."""
        return kind_decoder(self.kind)

    @property
    def label(self) -> str:
        """Its name among the tabs of the form."""
        if has_candidates(self.kind):
            return self.operation
        return self.kind if self.operation == "decode" else f"{self.kind} {self.operation}"


def _asked(operation: str, kind: str) -> Asked:
    """What the address or the form asks for; strings are decoded if it does not say.

    Raises RequestError.
    """
    found = Asked(operation or "decode", kind or "string")
    if found.operation not in found.decoder.operations:
        raise RequestError(
            f"operation {operation[:20]!a} is not one of a metric of kind {found.kind}: "
            f"{', '.join(found.decoder.operations)}"
        )
    return found


def known_metric(request: Request, person: Person, name: str) -> KnownCounts | None:
    """What the collector says of the current version of a metric; None where it says nothing.

    name: of a location that of the whole.
    """
    listed = [
        view.listed
        for view in service_of(request).metrics.all(person).metrics
        if view.listed and name in (view.name, view.name.partition("/")[0])
    ]
    current = [one for one in listed if one["state"] == "current"]
    return counts_of_version((current or listed)[-1]) if listed else None


def _served_days(known: KnownCounts | None, has_before: bool) -> dict[str, list[str]]:
    """The days of the form: all that are served; of a comparison the earlier and later half."""
    if known is None or known.first_day is None or known.last_day is None:
        return {}
    first, last = known.first_day, known.last_day
    if not has_before or first == last:
        return {"first": [first.isoformat()], "last": [last.isoformat()]}
    middle = first + (last - first) // 2
    later = middle + timedelta(days=1)
    days = {"before_first": first, "before_last": middle, "first": later, "last": last}
    return {name: [day.isoformat()] for name, day in days.items()}


@router.get("/jobs/{job_id}")
def one(request: Request, person: Reader, job_id: str) -> Response:
    """The page of a job: state, progress, outcome."""
    service = service_of(request)
    row = service.jobs.get(person, job_id)
    return render(
        request,
        "job.html.j2",
        person,
        row=row,
        done=percent_done(row),
        live=row.state in LIVE,
        chosen=chosen(with_names(said(json.loads(row.spec)), service.lists.all(person))),
        spec=json.dumps(said(json.loads(row.spec)), indent=2, ensure_ascii=True),
        workers=_workers(request) if row.state == JobState.QUEUED else None,
    )


@router.post("/jobs/{job_id}/cancel")
def cancel(request: Request, person: Reader, job_id: str, form: Form) -> Response:
    """Cancel a job."""
    del form
    service_of(request).jobs.cancel(person, job_id)
    return redirect(f"/jobs/{job_id}")


def said(spec: dict[str, Any]) -> dict[str, Any]:
    """A specification without the parts that it leaves open, for display."""
    known = {name: said(value) if isinstance(value, dict) else value
             for name, value in spec.items()}  # fmt: skip
    usual = _USUAL_SPEC if "operation" in spec else {}
    return {
        name: value
        for name, value in known.items()
        if value not in (None, [], {}) and usual.get(name) != spec[name]
    }


def chosen(spec: dict[str, Any]) -> list[tuple[str, str]]:
    """Heading and text of each part of a specification, for people."""
    return [(HEADINGS.get(name, name.capitalize()), _words(value)) for name, value in spec.items()]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(
            f"{_part(name)}: " + (f"{100 * one:.12g} %" if name in LEVELS else _words(one))
            for name, one in value.items()
            if (name, one) not in _USUAL
        )
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text[:16] if DIGEST.fullmatch(text) else text


def _part(name: str) -> str:
    """A member of a specification as the form calls it."""
    label = LABELS.get(name, name.replace("_", " "))
    return _PARTS.get(name, label[0].lower() + label[1:])


def percent_done(row: JobRow) -> int | None:
    """Progress of the present stage in per cent; None where it is not known."""
    return round(100 * min(row.done / row.total, 1)) if row.total > 0 else None


def _form(
    request: Request,
    person: Person,
    asked: Asked,
    given: Posted,
    problem: str,
    status: int = 200,
    wrong: str = "",
) -> Response:
    service, metric = service_of(request), given.text("metric")
    lists, known = service.lists.all(person), known_metric(request, person, metric)
    names = {view.name for view in service.metrics.all(person).metrics if view.listed}
    aggregates = service.aggregates.all(person)
    is_location = "map" in asked.decoder.members
    context: dict[str, Any] = {
        "asked": asked,
        "kind": asked.decoder,
        "has_candidates": has_candidates(asked.kind),
        "has_others": bool(aggregates),
        "tabs": _tabs(known, asked),
        "known": known,
        "needs_list": bool(
            known and known.own_values is False and has_candidates(known.kind or "string")
        ),
        "wrong": wrong,
        "percent_of_share": percent_of_share,
        "given": as_names(given, lists),
        "list_names": unique_names(lists),
        "problem": problem,
        **lists_by_kind(lists),
        "aggregates": [
            one
            for one in aggregates
            if _is_alike(one.kind or "string", asked.kind)
            and (not metric or one.metric.partition("/")[0] == metric.partition("/")[0])
        ],
        "metrics": sorted({name.partition("/")[0] for name in names
                           if is_location == ("/" in name)}),
        "has_collector": service.settings.collector is not None,
        "files": _files(request),
        "corrections": CORRECTIONS,
        "usual_flows": FlowOptions(),
    }  # fmt: skip
    return render(request, "new_job.html.j2", person, status, **context)


def _is_alike(kind: str, other: str) -> bool:
    """Whether two kinds of metric have one decoder, and so one form."""
    return kind in DECODERS and kind_decoder(kind) is kind_decoder(other)


def _tabs(known: KnownCounts | None, asked: Asked) -> list[Asked]:
    """What the metric, or some metric, can be asked; kinds with one decoder are one."""
    kinds = [asked.kind] if known else {id(kind_decoder(one)): one for one in reversed(DECODERS)}
    names = kinds if isinstance(kinds, list) else list(reversed(kinds.values()))
    return [Asked(one, name) for name in names for one in kind_decoder(name).operations]


def _files(request: Request) -> Sequence[str]:
    folder = service_of(request).settings.aggregate_folder
    if folder is None or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".json")[:1000]


def _workers(request: Request) -> bool:
    """Whether a worker lives."""
    try:
        return bool(service_of(request).check_ready())
    except ServiceError:
        return False
