"""Pages of schedules: make one, see its windows and findings, change, pause and delete it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder.inference.multiple_testing import CORRECTIONS
from decoder.kinds.interface import kinds_with
from decoder_service.alarms.events import shown_event
from decoder_service.jobs.form import (
    candidates_of_form,
    choices_of_form,
    in_labels,
    percent_of_share,
    weights_of_form,
)
from decoder_service.jobs.page import chosen, said
from decoder_service.lists.page import as_ids, as_names, lists_by_kind, unique_names, with_names
from decoder_service.people.permissions import Act, Person, require
from decoder_service.schedules.choices import Every, NewSchedule, ScheduleChoices
from decoder_service.schedules.rows import ScheduleRow
from decoder_service.schedules.series import Family, SeriesView
from decoder_service.schedules.view import RULES, alarm_of_form, found_values, rules_in_words
from decoder_service.shell.errors import FieldError, QuotaError, RequestError, ServiceError
from decoder_service.shell.problems import status_of
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Form, Posted, Reader, parsed, redirect, render
from decoder_service.shell.web import router as new_router

MOST_EVENTS = 50
router = new_router()


@router.get("/schedules")
def index(request: Request, person: Reader) -> Response:
    """The page of one's own schedules; for an admin of all."""
    schedules = service_of(request).schedules
    known = schedules.all(person)
    statuses = service_of(request).statuses.of_rows(known)
    rows = [
        (row, Counter(one.state for one in schedules.windows(person, row.id)), status)
        for row, status in zip(known, statuses, strict=True)
    ]
    has = service_of(request).settings.collector is not None
    return render(request, "schedules.html.j2", person, rows=rows, has_collector=has)


@router.get("/schedules/new")
def new(
    request: Request, person: Reader, metric: str = "", operation: str = "", every: str = ""
) -> Response:
    """The page with the form for a new schedule."""
    require(person, Act.ANALYSE)
    return _form(
        request,
        person,
        None,
        Posted(
            {"metric": [metric], "operation": [operation or "decode"], "every": [every or "week"]},
            {},
        ),
    )


@router.post("/schedules")
def create(request: Request, person: Reader, form: Form) -> Response:
    """Make a schedule; what is wrong is said above the form, which keeps what was typed."""
    try:
        given = _choices(_with_ids(request, person, form)) | {
            "metric": form.text("metric"),
            "every": form.text("every"),
            "operation": form.text("operation", "decode"),
        }
        asked = in_labels(lambda: parsed(NewSchedule, given))
        row = service_of(request).schedules.create(person, asked)
    except ServiceError as error:
        return _again(request, person, None, form, error)
    service_of(request).statuses.check(row)
    return redirect(f"/schedules/{row.id}")


@router.get("/schedules/{schedule_id}")
def one(request: Request, person: Reader, schedule_id: str) -> Response:
    """The page of a schedule: its windows, findings and alarms."""
    return _shown(request, person, schedule_id)


@router.get("/schedules/{schedule_id}/edit")
def edit(request: Request, person: Reader, schedule_id: str) -> Response:
    """The page with the filled form of a schedule."""
    row = service_of(request).schedules.get(person, schedule_id)
    return _form(request, person, row, _filled(row))


@router.post("/schedules/{schedule_id}/edit")
def change(request: Request, person: Reader, schedule_id: str, form: Form) -> Response:
    """Change a schedule."""
    schedules = service_of(request).schedules
    row = schedules.get(person, schedule_id)
    try:
        given = _choices(_with_ids(request, person, form), row)
        asked = in_labels(lambda: parsed(ScheduleChoices, given))
        row = schedules.edit(person, row.id, asked)
    except ServiceError as error:
        return _again(request, person, row, form, error)
    service_of(request).statuses.check(row)
    return redirect(f"/schedules/{row.id}")


@router.post("/schedules/{schedule_id}/enable")
def enable(request: Request, person: Reader, schedule_id: str, form: Form) -> Response:
    """Pause a schedule, or let it go on."""
    service = service_of(request)
    row = service.schedules.enable(person, schedule_id, bool(form.text("enabled")))
    service.statuses.check(row)
    return redirect(f"/schedules/{schedule_id}")


@router.post("/schedules/{schedule_id}/delete")
def delete(request: Request, person: Reader, schedule_id: str, form: Form) -> Response:
    """Delete a schedule, once that was confirmed."""
    if not form.text("sure"):
        raise RequestError("tick the box beside Delete: windows and alarms go, results stay")
    service_of(request).schedules.delete(person, schedule_id)
    return redirect("/schedules")


@router.post("/schedules/{schedule_id}/alarms")
def create_alarm(request: Request, person: Reader, schedule_id: str, form: Form) -> Response:
    """Set an alarm. One that is refused keeps its form."""
    try:
        asked = alarm_of_form(form)
        service_of(request).alarms.create(
            person,
            schedule_id,
            asked.name,
            asked.target,
            asked.rules,
            asked.show_values,
        )
    except RequestError as error:
        return _shown(request, person, schedule_id, form=form, error=error)
    return redirect(f"/schedules/{schedule_id}")


@router.post("/schedules/{schedule_id}/alarms/{alarm_id}/delete")
def delete_alarm(
    request: Request, person: Reader, schedule_id: str, alarm_id: str, form: Form
) -> Response:
    """Delete an alarm with its messages, once that was confirmed."""
    if not form.text("sure"):
        raise RequestError("tick the box beside Delete: the events of the alarm go with it")
    service_of(request).alarms.delete(person, schedule_id, alarm_id)
    return redirect(f"/schedules/{schedule_id}")


def _shown(
    request: Request,
    person: Person,
    schedule_id: str,
    form: Posted | None = None,
    error: RequestError | None = None,
) -> Response:
    """The page of a schedule. form, error: of an alarm that was refused, which stays filled."""
    service = service_of(request)
    row = service.schedules.get(person, schedule_id)
    series, problem = _series(request, person, schedule_id)
    alarms = service.alarms.all(person, schedule_id)
    names = {alarm.id: alarm.name for alarm in alarms}
    events = service.alarms.events(person, schedule_id, MOST_EVENTS)
    spec = with_names(said(json.loads(row.spec)), service.lists.all(person))
    windows = service.schedules.windows(person, schedule_id)
    return render(
        request,
        "schedule.html.j2",
        person,
        200 if error is None else status_of(error),
        row=row,
        schedule_status=service.statuses.of_row(row),
        chosen=chosen(
            {name: spec[name] for name in ("candidates", "weights", "options") if name in spec}
        ),
        windows=sorted(windows, key=lambda one: one.first_day, reverse=True),
        series=[(one, found_values(one)) for one in series],
        problem=problem,
        alarms=[(alarm, rules_in_words(json.loads(alarm.rules))) for alarm in alarms],
        events=[(names[event.alarm_id], shown_event(event)) for event in events],
        rules=RULES,
        given=form or Posted({"failed": ["1"]}, {}),
        refused=str(error or ""),
        wrong=error.field if isinstance(error, FieldError) else "",
        targets=sorted(service.alarms.urls),
    )


def _series(request: Request, person: Person, schedule_id: str) -> tuple[list[SeriesView], str]:
    """What was found; or why that cannot be said of so many tests."""
    try:
        return service_of(request).schedules.series(person, schedule_id), ""
    except QuotaError as error:
        return [], str(error)


def _choices(form: Posted, row: ScheduleRow | None = None) -> dict[str, Any]:
    """What the form says, and of a schedule that is changed what its fields do not show."""
    options = json.loads(row.spec)["options"] if row else {}
    shown = choices_of_form(form)
    if not form.text("repeats"):
        options.pop("repeats", None)
    given: dict[str, Any] = {
        "name": form.text("name"),
        "candidates": candidates_of_form(form),
        "weights": weights_of_form(form),
        "options": options | shown,
        "family": form.text("family", Family.WINDOW),
    }
    return given | ({"first_day": form.text("first_day")} if form.text("first_day") else {})


def _filled(row: ScheduleRow) -> Posted:
    """The form of a schedule that is there."""
    spec = json.loads(row.spec)
    given, options = spec["candidates"], spec["options"]
    texts = {
        "name": row.name,
        "list": _version(given),
        "weights": _version(spec.get("weights") or {}),
        **{name: given[name] and ":".join(map(str, given[name])) for name in ("numbers", "dates")},
        **{name: options[name] for name in ("method", "correction", "alpha", "level", "repeats")},
        "family": row.family,
        "first_day": row.first_day,
    }
    return Posted({name: ["" if one is None else str(one)] for name, one in texts.items()}, {})


def _with_ids(request: Request, person: Person, form: Posted) -> Posted:
    """The form with ids in place of the names of lists. Raises FieldError."""
    return as_ids(form, service_of(request).lists.all(person))


def _version(given: dict[str, Any]) -> str | None:
    """A list as the form names it: `id` or `id:version`."""
    listed, version = given.get("list"), given.get("version")
    return f"{listed}:{version}" if version else listed


def _again(
    request: Request, person: Person, row: ScheduleRow | None, form: Posted, error: ServiceError
) -> Response:
    status = status_of(error)
    if status not in (404, 422, 429):
        raise error
    field = error.field if isinstance(error, FieldError) else ""
    return _form(request, person, row, form, str(error), status, field)


def _form(
    request: Request,
    person: Person,
    row: ScheduleRow | None,
    given: Posted,
    problem: str = "",
    status: int = 200,
    wrong: str = "",
) -> Response:
    service = service_of(request)
    lists = service.lists.all(person)
    listed = [view for view in service.metrics.all(person).metrics if view.listed]
    names = {view.name for view in listed if _kind(view.listed) in kinds_with("series")}
    return render(
        request,
        "schedule_form.html.j2",
        person,
        status,
        row=row,
        given=as_names(given, lists),
        list_names=unique_names(lists),
        problem=problem,
        wrong=wrong,
        percent_of_share=percent_of_share,
        metrics=sorted(names),
        **lists_by_kind(lists),
        every=list(Every),
        corrections=CORRECTIONS,
        families=list(Family),
        has_collector=service.settings.collector is not None,
    )


def _kind(listed: Any) -> str:
    return str((listed or {}).get("definition", {}).get("kind", ""))
