"""Pages of schedules: make one, see its windows and findings, change, pause and delete it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from decoder.inference.multiple_testing import CORRECTIONS
from decoder.kinds.interface import kinds_with
from decoder_service.alarms.rules import NewAlarm, shown_event
from decoder_service.jobs.form import (
    candidates_of_form,
    choices_of_form,
    form_fields,
    list_of_form,
    parsed_in_labels,
    percent_of_share,
    share_of_percent,
)
from decoder_service.jobs.page import chosen, said
from decoder_service.lists.page import lists_by_kind, with_names
from decoder_service.people.permissions import Act, require
from decoder_service.schedules.rules import Every, NewSchedule, ScheduleChoices, spec_of_schedule
from decoder_service.schedules.series import Family, SeriesView
from decoder_service.shell.errors import QuotaError, RequestError, ServiceError
from decoder_service.shell.models import ScheduleRow
from decoder_service.shell.requests import Me, Service
from decoder_service.shell.web import Form, Posted, Visit, check_sure, page_router, redirect

MOST_EVENTS = 50
pages = page_router()


@pages.get("/schedules")
def index(visit: Visit) -> Response:
    """The page of one's own schedules; for an admin of all."""
    schedules = visit.service.schedules
    known = schedules.all(visit.person, limit=None)
    statuses = visit.service.statuses.of_rows(known)
    rows = [
        (row, Counter(one.state for one in schedules.windows(visit.person, row.id)), status)
        for row, status in zip(known, statuses, strict=True)
    ]
    has = visit.service.settings.collector is not None
    return visit.render("schedules.html.j2", rows=rows, has_collector=has)


@pages.get("/schedules/new")
def new(visit: Visit, metric: str = "", operation: str = "", every: str = "") -> Response:
    """The page with the form for a new schedule."""
    require(visit.person, Act.ANALYSE)
    return _form(
        visit,
        None,
        Posted(
            {"metric": [metric], "operation": [operation or "decode"], "every": [every or "week"]},
            {},
        ),
    )


@pages.post("/schedules")
def create(visit: Visit, form: Form) -> Response:
    """Make a schedule; what is wrong is said above the form, which keeps what was typed."""
    try:
        given = _choices(form) | {
            "metric": form.text("metric"),
            "every": form.text("every"),
            "operation": form.text("operation", "decode"),
        }
        asked = parsed_in_labels(NewSchedule, given)
        row = visit.service.schedules.create(visit.person, asked)
    except ServiceError as error:
        return _form(visit, None, form, error)
    visit.service.statuses.check(row)
    return redirect(f"/schedules/{row.id}")


@pages.get("/schedules/{schedule_id}")
def one(visit: Visit, schedule_id: str) -> Response:
    """The page of a schedule: its windows, findings and alarms."""
    return _shown(visit, schedule_id)


@pages.get("/schedules/{schedule_id}/edit")
def edit(visit: Visit, schedule_id: str) -> Response:
    """The page with the filled form of a schedule."""
    row = visit.service.schedules.get(visit.person, schedule_id)
    return _form(visit, row, _filled(row))


@pages.post("/schedules/{schedule_id}/edit")
def change(visit: Visit, schedule_id: str, form: Form) -> Response:
    """Change a schedule."""
    schedules = visit.service.schedules
    row = schedules.get(visit.person, schedule_id)
    try:
        given = _choices(form, row)
        asked = parsed_in_labels(ScheduleChoices, given)
        row = schedules.edit(visit.person, row.id, asked)
    except ServiceError as error:
        return _form(visit, row, form, error)
    visit.service.statuses.check(row)
    return redirect(f"/schedules/{row.id}")


@pages.post("/schedules/{schedule_id}/enable")
def enable(service: Service, person: Me, schedule_id: str, form: Form) -> Response:
    """Pause a schedule, or let it go on."""
    row = service.schedules.enable(person, schedule_id, bool(form.text("enabled")))
    service.statuses.check(row)
    return redirect(f"/schedules/{schedule_id}")


@pages.post("/schedules/{schedule_id}/delete")
def delete(service: Service, person: Me, schedule_id: str, form: Form) -> Response:
    """Delete a schedule, once that was confirmed."""
    check_sure(form, "Delete: windows and alarms go, results stay")
    service.schedules.delete(person, schedule_id)
    return redirect("/schedules")


@pages.post("/schedules/{schedule_id}/alarms")
def create_alarm(visit: Visit, schedule_id: str, form: Form) -> Response:
    """Set an alarm. One that is refused keeps its form."""
    try:
        visit.service.alarms.create(visit.person, schedule_id, alarm_of_form(form))
    except RequestError as error:
        return _shown(visit, schedule_id, form=form, error=error)
    return redirect(f"/schedules/{schedule_id}")


@pages.post("/schedules/{schedule_id}/alarms/{alarm_id}/delete")
def delete_alarm(
    service: Service, person: Me, schedule_id: str, alarm_id: str, form: Form
) -> Response:
    """Delete an alarm with its messages, once that was confirmed."""
    check_sure(form, "Delete: the events of the alarm go with it")
    service.alarms.delete(person, schedule_id, alarm_id)
    return redirect(f"/schedules/{schedule_id}")


def _shown(
    visit: Visit, schedule_id: str, form: Posted | None = None, error: RequestError | None = None
) -> Response:
    """The page of a schedule. form, error: of an alarm that was refused, which stays filled."""
    service = visit.service
    row = service.schedules.get(visit.person, schedule_id)
    series, uncorrected = _series(visit, schedule_id)
    alarms = service.alarms.all(visit.person, schedule_id)
    events = service.alarms.events(visit.person, schedule_id, MOST_EVENTS)
    spec = with_names(said(row.spec), service.lists.all(visit.person))
    windows = service.schedules.windows(visit.person, schedule_id)
    return visit.render_form(
        "schedule.html.j2",
        error,
        row=row,
        schedule_status=service.statuses.of_rows([row])[0],
        chosen=chosen(
            {name: spec[name] for name in ("candidates", "weights", "options") if name in spec}
        ),
        windows=sorted(windows, key=lambda one: one.first_day, reverse=True),
        series=[(one, found_values(one)) for one in series],
        uncorrected=uncorrected,
        alarms=[(alarm, rules_in_words(json.loads(alarm.rules))) for alarm in alarms],
        events=[(event.alarm.name, shown_event(event)) for event in events],
        rules=RULES,
        given=form or Posted({"failed": ["1"]}, {}),
        targets=sorted(service.alarms.urls),
    )


def _series(visit: Visit, schedule_id: str) -> tuple[list[SeriesView], str]:
    """What was found; or why that cannot be said of so many tests."""
    try:
        return visit.service.schedules.series(visit.person, schedule_id), ""
    except QuotaError as error:
        return [], str(error)


def _choices(form: Posted, row: ScheduleRow | None = None) -> dict[str, Any]:
    """What the form says, and of a schedule that is changed what its fields do not show."""
    options = spec_of_schedule(row).options.model_dump(mode="json") if row else {}
    shown = choices_of_form(form)
    if not form.text("repeats"):
        options.pop("repeats", None)
    given: dict[str, Any] = {
        "name": form.text("name"),
        "candidates": candidates_of_form(form),
        "weights": list_of_form(form, "weights"),
        "options": options | shown,
        "family": form.text("family", Family.WINDOW),
    }
    return given | ({"first_day": form.text("first_day")} if form.text("first_day") else {})


def _filled(row: ScheduleRow) -> Posted:
    """The form of a schedule that is there."""
    fields = form_fields(spec_of_schedule(row).model_dump(mode="json"))
    fields += [("name", row.name), ("family", row.family), ("first_day", row.first_day or "")]
    return Posted({name: [text] for name, text in fields}, {})


def _form(
    visit: Visit, row: ScheduleRow | None, given: Posted, error: ServiceError | None = None
) -> Response:
    service = visit.service
    lists = service.lists.all(visit.person)
    listed = [view for view in service.metrics.all(visit.person).metrics if view.listed]
    names = {view.name for view in listed if _kind(view.listed) in kinds_with("series")}
    return visit.render_form(
        "schedule_form.html.j2",
        error,
        row=row,
        given=given,
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


MOST_FOUND = 100  # values of a series on the page
RULES = {
    "new_value": "a value that no earlier window detected",
    "change": "a share that moved by more than",
    "fewer_reports": "fewer reports than this share of the usual",
    "cohort": "a cohort that does not follow the model",
    "refused": "more than this share of a day's reports refused",
    "failed": "a window that could not be decoded",
}
UNITS = {"change": "points", "fewer_reports": "%", "refused": "%"}


@dataclass(frozen=True)
class FoundValue:
    """A detected value: in how many windows, in which last, and its share there."""

    value: str
    windows: int
    last: dict[str, Any]


def found_values(series: SeriesView) -> list[FoundValue]:
    """The detected values, those of the most windows first."""
    by_value: dict[str, list[dict[str, Any]]] = {}
    for row in series.rows:
        if row["detected"]:
            by_value.setdefault(row["value"], []).append(row)
    found = [FoundValue(value, len(rows), max(rows, key=lambda one: one["first_day"]))
             for value, rows in by_value.items()]  # fmt: skip
    found.sort(key=lambda one: (-one.windows, -(one.last["estimate"] or 0.0)))
    return found[:MOST_FOUND]


def rules_in_words(rules: dict[str, Any]) -> list[str]:
    """A sentence for each rule of an alarm that is on."""
    return [
        f"{RULES[name]} ({100 * value:g} {UNITS[name]})"
        if isinstance(value, float)
        else RULES[name]
        for name, value in rules.items()
        if value not in (None, False)
    ]


BOUNDS = {
    "change_points": "points",
    "fewer_reports_percent": "per cent",
    "refused_percent": "per cent",
}
FLAGS = ("new_value", "cohort", "failed")


def alarm_of_form(form: Posted) -> NewAlarm:
    """The alarm that a form asks for. Raises FieldError, RequestError."""
    bounds = {name: bound_of(form, name) for name in BOUNDS}
    rules = {name.rpartition("_")[0]: bound for name, bound in bounds.items() if bound is not None}
    given = {
        "name": form.text("name"),
        "target": form.text("target"),
        "show_values": bool(form.text("show_values")),
        "rules": rules | {name: bool(form.text(name)) for name in FLAGS},
    }
    return parsed_in_labels(NewAlarm, given)


def bound_of(form: Posted, name: str) -> float | None:
    """A bound as a share; None where the field is empty. Raises FieldError."""
    if not form.text(name):
        return None
    label = RULES[name.rpartition("_")[0]].capitalize()
    return float(share_of_percent(form, name, label, BOUNDS[name]))
