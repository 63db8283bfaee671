"""Schedules and their alarms."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from decoder_service.alarms.rules import NewAlarm, shown_event
from decoder_service.jobs.specs import StrictModel
from decoder_service.schedules.rules import NewSchedule, ScheduleChoices, shown_schedule
from decoder_service.schedules.status import ScheduleStatus, shown_status
from decoder_service.shell.models import AlarmRow, ScheduleRow, WindowRow
from decoder_service.shell.operations import shown
from decoder_service.shell.requests import GuardedRoute, Limit, Me, Service, service_of

api = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=GuardedRoute)


class Enabled(StrictModel):
    """Whether a schedule is switched on."""

    enabled: bool


@api.post("", operation_id="createSchedule", status_code=201)
def create(request: Request, person: Me, body: NewSchedule) -> dict[str, Any]:
    """Decode every sealed day, week or month of a metric.

    `status` says whether anything is in its way, such as a collector that cannot be reached.
    """
    row = service_of(request).schedules.create(person, body)
    return _checked(request, row)


@api.get("", operation_id="listSchedules")
def list_schedules(service: Service, person: Me) -> dict[str, Any]:
    """Your schedules, for an admin all, each with its state and the reason for it: `status`."""
    rows = service.schedules.all(person, limit=None)
    statuses = service.statuses.of_rows(rows)
    pairs = zip(rows, statuses, strict=True)
    return {"schedules": [shown_schedule(row) | _status_json(one) for row, one in pairs]}


@api.get("/{schedule_id}", operation_id="getSchedule")
def get(service: Service, person: Me, schedule_id: str) -> dict[str, Any]:
    """A schedule, its windows, its state and the reason for it: `status`."""
    schedules = service.schedules
    row = schedules.get(person, schedule_id)
    windows = [shown_window(one) for one in schedules.windows(person, schedule_id)]
    shown = _status_json(service.statuses.of_rows([row])[0])
    return shown_schedule(row) | shown | {"windows": windows}


@api.get("/{schedule_id}/series", operation_id="getScheduleSeries")
def get_series(service: Service, person: Me, schedule_id: str) -> dict[str, Any]:
    """The values found over the windows of a schedule, at its level, which is also put in words."""
    found = service.schedules.series(person, schedule_id)
    shown = [
        {
            "params_id": one.windows[0].params_id,
            "level": one.level,
            "windows": [shown_window(window) for window in one.windows],
            "rows": one.rows,
            "values_left_out": one.left_out,
        }
        for one in found
    ]
    return {"series": shown}


@api.put("/{schedule_id}", operation_id="editSchedule")
def edit(request: Request, person: Me, schedule_id: str, body: ScheduleChoices) -> dict[str, Any]:
    """Change a schedule; metric and length of a window stay.

    With other options or other lists all windows are decoded again.
    """
    row = service_of(request).schedules.edit(person, schedule_id, body)
    return _checked(request, row)


@api.post("/{schedule_id}/enable", operation_id="enableSchedule")
def enable(request: Request, person: Me, schedule_id: str, body: Enabled) -> dict[str, Any]:
    """Switch a schedule on or off."""
    row = service_of(request).schedules.enable(person, schedule_id, body.enabled)
    return _checked(request, row)


@api.delete("/{schedule_id}", operation_id="deleteSchedule")
def delete(service: Service, person: Me, schedule_id: str) -> dict[str, Any]:
    """Delete a schedule with its alarms; its results stay."""
    service.schedules.delete(person, schedule_id)
    return {"deleted": schedule_id}


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


def _checked(request: Request, row: ScheduleRow) -> dict[str, Any]:
    """A schedule that was made or changed, which is checked at once."""
    return shown_schedule(row) | _status_json(service_of(request).statuses.check(row))


def _status_json(status: ScheduleStatus) -> dict[str, Any]:
    return {"status": shown_status(status)}


def shown_window(row: WindowRow) -> dict[str, Any]:
    """A window of a schedule."""
    counts = "digest params_id first_day last_day num_reports"
    return shown(row, f"{counts} state tries job_id result_id")


def shown_alarm(row: AlarmRow) -> dict[str, Any]:
    """The public properties of an alarm."""
    return shown(row, "id name target show_values created") | {"rules": json.loads(row.rules)}
