"""Sentences and tables about a schedule's findings, and the form of its alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from decoder_service.alarms.events import NewAlarm
from decoder_service.jobs.form import parsed_in_labels, share_of_percent
from decoder_service.schedules.series import SeriesView
from decoder_service.shell.web import Posted

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
