"""Alarms of schedules: their routes, and their form."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query

from decoder_service.alarms.rules import NewAlarm, shown_event
from decoder_service.jobs.form import parsed_in_labels, share_of_percent
from decoder_service.shell.models import AlarmRow
from decoder_service.shell.operations import shown
from decoder_service.shell.requests import GuardedRoute, Limit, Me, Service
from decoder_service.shell.web import Posted, add_form, page_router

pages = page_router()
api = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=GuardedRoute)
RULES = {
    "new_value": "a value that no earlier window detected",
    "change": "a share that moved by more than",
    "fewer_reports": "fewer reports than this share of the usual",
    "cohort": "a cohort that does not follow the model",
    "refused": "more than this share of a day's reports refused",
    "failed": "a window that could not be decoded",
}
UNITS = {"change": "points", "fewer_reports": "%", "refused": "%"}
FLAGS = ("new_value", "cohort", "failed")


@api.post("/{schedule_id}/alarms", operation_id="createAlarm", status_code=201)
def create_alarm(service: Service, person: Me, schedule_id: str, body: NewAlarm) -> dict[str, Any]:
    """Set an alarm; its target is one that an operator set up."""
    return shown_alarm(service.alarms.create(person, schedule_id, body))


@api.get("/{schedule_id}/alarms", operation_id="listAlarms")
def list_alarms(
    service: Service, person: Me, schedule_id: str, limit: Annotated[Limit, Query()] = 100
) -> dict[str, Any]:
    """The alarms of a schedule, and their events, newest first."""
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
    sure="Delete: the events of the alarm go with it",
)


def shown_alarm(row: AlarmRow) -> dict[str, Any]:
    """The public properties of an alarm."""
    return shown(row, "id name target show_values created") | {"rules": json.loads(row.rules)}


def rules_in_words(rules: dict[str, Any]) -> list[str]:
    """A sentence for each rule of an alarm that is on."""
    return [
        f"{RULES[name]} ({100 * value:g} {UNITS[name]})"
        if isinstance(value, float)
        else RULES[name]
        for name, value in rules.items()
        if value not in (None, False)
    ]


def alarm_of_form(form: Posted) -> NewAlarm:
    """The alarm that a form asks for. Raises FieldError, RequestError."""
    rules: dict[str, Any] = {name: bool(form.text(name)) for name in FLAGS}
    for name, unit in UNITS.items():
        field = f"{name}_points" if unit == "points" else f"{name}_percent"
        if form.text(field):
            unit_text = unit.replace("%", "per cent")
            rules[name] = float(share_of_percent(form, field, RULES[name].capitalize(), unit_text))
    given = {
        "name": form.text("name"),
        "target": form.text("target"),
        "show_values": bool(form.text("show_values")),
        "rules": rules,
    }
    return parsed_in_labels(NewAlarm, given)
