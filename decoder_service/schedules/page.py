"""Pages and routes for making, viewing, changing, pausing and deleting schedules and alarms."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from decoder.inference.multiple_testing import CORRECTIONS
from decoder.kinds.interface import kinds_with
from decoder_service.alarms.rules import NewAlarm, shown_event
from decoder_service.jobs.form import (
    LABELS,
    candidates_of_form,
    choices_of_form,
    form_fields,
    list_of_form,
    parsed_in_labels,
    percent_of_share,
    share_of_percent,
)
from decoder_service.jobs.page import said
from decoder_service.lists.page import lists_by_kind
from decoder_service.people.permissions import Act, require
from decoder_service.schedules.rules import NewSchedule, ScheduleChoices, shown_schedule
from decoder_service.schedules.windows import Every, spec_of_schedule
from decoder_service.shell.database import shown
from decoder_service.shell.errors import ServiceError
from decoder_service.shell.models import AlarmRow, ScheduleRow
from decoder_service.shell.requests import Flag, GuardedRoute, Limit, Me, Service
from decoder_service.shell.web import Form, Posted, Visit, add_form, page_router, redirect
from rappor_server.errors import RequestError

pages = page_router()
api = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=GuardedRoute)
RULES = {
    "new_value": "New value: not detected in earlier windows",
    "change": "Share changed by more than",
    "fewer_reports": "Reports below this part of the usual number",
    "cohort": "Cohort does not fit the model",
    "failed": "Window could not be decoded",
}
UNITS = {"change": "points", "fewer_reports": "%"}
FLAGS = ("new_value", "cohort", "failed")


@api.post("/{schedule_id}/alarms", operation_id="createAlarm", status_code=201)
def create_alarm(service: Service, person: Me, schedule_id: str, body: NewAlarm) -> dict[str, Any]:
    """Create an alarm for a target that an operator has set up."""
    return shown_alarm(service.alarms.create(person, schedule_id, body))


@api.get("/{schedule_id}/alarms", operation_id="listAlarms")
def list_alarms(
    service: Service, person: Me, schedule_id: str, limit: Annotated[Limit, Query()] = 100
) -> dict[str, Any]:
    """Return the alarms of a schedule, and their events, newest first."""
    alarms = service.alarms
    return {
        "alarms": [shown_alarm(row) for row in alarms.all(person, schedule_id)],
        "events": [shown_event(row) for row in alarms.events(person, schedule_id, limit)],
    }


@api.delete("/{schedule_id}/alarms/{alarm_id}", operation_id="deleteAlarm")
def delete_alarm(service: Service, person: Me, schedule_id: str, alarm_id: str) -> dict[str, Any]:
    """Delete an alarm and its events."""
    service.alarms.delete(person, schedule_id, alarm_id)
    return {"deleted": alarm_id}


add_form(
    pages,
    "/schedules/{schedule_id}/alarms/{alarm_id}/delete",
    delete_alarm,
    back="/schedules/{schedule_id}",
    sure="Delete the alarm and its events",
)


def shown_alarm(row: AlarmRow) -> dict[str, Any]:
    """Return the public properties of an alarm."""
    return shown(row, "id name target show_values created") | {"rules": json.loads(row.rules)}


def rules_in_words(rules: dict[str, Any]) -> list[str]:
    """Return a description of each active rule of an alarm."""
    return [
        f"{RULES[name]} ({100 * value:g} {UNITS[name]})"
        if isinstance(value, float)
        else RULES[name]
        for name, value in rules.items()
        if value not in (None, False)
    ]


def alarm_of_form(form: Posted) -> NewAlarm:
    """Return the alarm that a form describes. Raises FieldError and RequestError."""
    rules: dict[str, Any] = {name: bool(form.text(name)) for name in FLAGS}
    for name, unit in UNITS.items():
        field = f"{name}_points" if unit == "points" else f"{name}_percent"
        if form.text(field):
            unit_text = unit.replace("%", "percent")
            rules[name] = float(share_of_percent(form, field, RULES[name].capitalize(), unit_text))
    fields = {
        "name": form.text("name"),
        "target": form.text("target"),
        "show_values": bool(form.text("show_values")),
        "rules": rules,
    }
    return parsed_in_labels(NewAlarm, fields)


MAX_EVENTS = 50
_ONE = "/schedules/{schedule_id}"


@api.post("", operation_id="createSchedule", status_code=201)
def create(service: Service, person: Me, body: NewSchedule) -> dict[str, Any]:
    """Decode every sealed day, week or month of a metric.

    `status` states whether anything blocks the schedule."""
    return _with_status(service, service.schedules.create(person, body))


@api.get("", operation_id="listSchedules")
def list_schedules(service: Service, person: Me) -> dict[str, Any]:
    """Return your schedules, or all schedules for an admin.

    `status` is the state of a schedule and the reason for it."""
    rows = service.schedules.all(person, limit=None)
    pairs = zip(rows, service.ticker.statuses(rows), strict=True)
    return {"schedules": [shown_schedule(row) | {"status": asdict(now)} for row, now in pairs]}


@api.get("/{schedule_id}", operation_id="getSchedule")
def get(service: Service, person: Me, schedule_id: str) -> dict[str, Any]:
    """Return a schedule and its windows. `status` is its state and the reason for it."""
    row = service.schedules.get(person, schedule_id)
    names = "digest params_id first_day last_day num_reports state tries job_id result_id"
    windows = [shown(window, names) for window in service.schedules.windows(person, schedule_id)]
    return _with_status(service, row) | {"windows": windows}


@api.put("/{schedule_id}", operation_id="editSchedule")
def edit(service: Service, person: Me, schedule_id: str, body: ScheduleChoices) -> dict[str, Any]:
    """Change a schedule except its metric and window length.

    If options or lists change, all windows are decoded again."""
    return _with_status(service, service.schedules.edit(person, schedule_id, body))


@api.post("/{schedule_id}/enable", operation_id="enableSchedule")
def enable(service: Service, person: Me, schedule_id: str, enabled: Flag) -> dict[str, Any]:
    """Switch a schedule on or off."""
    return _with_status(service, service.schedules.enable(person, schedule_id, enabled))


@api.delete("/{schedule_id}", operation_id="deleteSchedule")
def delete(service: Service, person: Me, schedule_id: str) -> dict[str, Any]:
    """Delete a schedule with its alarms; its results are kept."""
    service.schedules.delete(person, schedule_id)
    return {"deleted": schedule_id}


def _with_status(service: Service, row: ScheduleRow) -> dict[str, Any]:
    return shown_schedule(row) | {"status": asdict(service.ticker.statuses([row])[0])}


@pages.get("/schedules")
def index(visit: Visit) -> Response:
    """Show the visitor's schedules, or all schedules for an admin."""
    schedules = visit.service.schedules
    listed = schedules.all(visit.person, limit=None)
    statuses = visit.service.ticker.statuses(listed)
    rows = [
        (row, Counter(window.state for window in schedules.windows(visit.person, row.id)), status)
        for row, status in zip(listed, statuses, strict=True)
    ]
    has = visit.service.settings.collector is not None
    return visit.render("schedules.html.j2", rows=rows, has_collector=has)


@pages.get("/schedules/new")
def new(visit: Visit, metric: str = "", operation: str = "", every: str = "") -> Response:
    """Show the form for a new schedule."""
    require(visit.person, Act.ANALYZE)
    texts = {"metric": metric, "operation": operation or "decode", "every": every or "week"}
    return _form(visit, None, Posted({name: [text] for name, text in texts.items()}, {}))


@pages.post("/schedules")
def post_schedule(visit: Visit, form: Form) -> Response:
    """Create a schedule; on an error, show the form again with the error and the entered data."""
    try:
        fields = {name: form.text(name) for name in ("metric", "every")}
        fields["operation"] = form.text("operation", "decode")
        spec = parsed_in_labels(NewSchedule, _choices(form) | fields)
        row = visit.service.schedules.create(visit.person, spec)
    except ServiceError as error:
        return _form(visit, None, form, error)
    return redirect(f"/schedules/{row.id}")


@pages.post("/schedules/{schedule_id}/edit")
def change(visit: Visit, schedule_id: str, form: Form) -> Response:
    """Change a schedule; on an error, show the form again."""
    row = visit.service.schedules.get(visit.person, schedule_id)
    try:
        choices = parsed_in_labels(ScheduleChoices, _choices(form, row))
        visit.service.schedules.edit(visit.person, schedule_id, choices)
    except ServiceError as error:
        return _form(visit, row, form, error)
    return redirect(f"/schedules/{schedule_id}")


@pages.get("/schedules/{schedule_id}")
def one(visit: Visit, schedule_id: str) -> Response:
    """Show a schedule with its windows and alarms."""
    return _shown(visit, schedule_id)


@pages.get("/schedules/{schedule_id}/edit")
def edit_page(visit: Visit, schedule_id: str) -> Response:
    """Show the form for changing a schedule, filled with its properties."""
    row = visit.service.schedules.get(visit.person, schedule_id)
    fields = form_fields(spec_of_schedule(row).model_dump(mode="json"))
    fields += [("name", row.name), ("first_day", row.first_day or "")]
    return _form(visit, row, Posted({name: [text] for name, text in fields}, {}))


@pages.post("/schedules/{schedule_id}/alarms")
def post_alarm(visit: Visit, schedule_id: str, form: Form) -> Response:
    """Set an alarm; on an error, show the form again with the entered data."""
    try:
        visit.service.alarms.create(visit.person, schedule_id, alarm_of_form(form))
    except RequestError as error:
        return _shown(visit, schedule_id, form=form, error=error)
    return redirect(f"/schedules/{schedule_id}")


add_form(pages, f"{_ONE}/enable", enable, back=_ONE)
add_form(
    pages,
    f"{_ONE}/delete",
    delete,
    back="/schedules",
    sure="Delete the schedule, its windows and its alarms; results stay",
)


def _shown(
    visit: Visit, schedule_id: str, form: Posted | None = None, error: RequestError | None = None
) -> Response:
    """Show a schedule; `form` and `error` are from a rejected alarm."""
    service = visit.service
    row = service.schedules.get(visit.person, schedule_id)
    alarms = service.alarms.all(visit.person, schedule_id)
    events = service.alarms.events(visit.person, schedule_id, MAX_EVENTS)
    windows = service.schedules.windows(visit.person, schedule_id)
    return visit.render_form(
        "schedule.html.j2",
        error,
        row=row,
        schedule_status=service.ticker.statuses([row])[0],
        spec=said(row.spec, "candidates", "weights", "options"),
        windows=sorted(windows, key=lambda window: window.first_day, reverse=True),
        alarms=[(alarm, rules_in_words(json.loads(alarm.rules))) for alarm in alarms],
        events=[(event.alarm.name, shown_event(event)) for event in events],
        rules=RULES,
        given=form or Posted({"failed": ["1"]}, {}),
        targets=sorted(service.alarms.urls),
    )


def _choices(form: Posted, row: ScheduleRow | None = None) -> dict[str, Any]:
    """Return the entered choices, plus options of an edited schedule that the form omits."""
    options = spec_of_schedule(row).options.model_dump(mode="json") if row else {}
    if not form.text("repeats"):
        options.pop("repeats", None)
    return {
        "name": form.text("name"),
        "candidates": candidates_of_form(form),
        "weights": list_of_form(form, "weights"),
        "options": options | choices_of_form(form),
        "first_day": form.text("first_day") or None,
    }


def _form(
    visit: Visit, row: ScheduleRow | None, texts: Posted, error: ServiceError | None = None
) -> Response:
    service = visit.service
    kinds = {m["name"]: m["definition"].get("kind") for m in service.metrics.latest()[0]}
    return visit.render_form(
        "schedule_form.html.j2",
        error,
        row=row,
        given=texts,
        percent_of_share=percent_of_share,
        labels=LABELS,
        metrics=sorted(name for name, kind in kinds.items() if kind in kinds_with("series")),
        **lists_by_kind(service.lists.all(visit.person)),
        every=list(Every),
        corrections=CORRECTIONS,
        has_collector=service.settings.collector is not None,
    )
