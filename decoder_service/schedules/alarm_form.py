"""The form of an alarm: bounds in points and per cent, as people give them."""

from __future__ import annotations

from decoder_service.schedules.api import NewAlarm
from decoder_service.schedules.view import RULES
from decoder_service.shell.errors import FieldError, RequestError
from decoder_service.shell.web import Posted, parsed

BOUNDS = {
    "change_points": "points",
    "fewer_reports_percent": "per cent",
    "refused_percent": "per cent",
}
FLAGS = ("new_value", "cohort", "failed")
_LABELS = {"name": "Name", "target": "To"}


def alarm_of_form(form: Posted) -> NewAlarm:
    """The alarm that a form asks for. Raises FieldError, RequestError."""
    bounds = {name: bound_of(form, name) for name in BOUNDS}
    rules = {name.rpartition("_")[0]: bound for name, bound in bounds.items() if bound is not None}
    given = {
        **{name: form.text(name) for name in _LABELS},
        "show_values": bool(form.text("show_values")),
        "rules": rules | {name: bool(form.text(name)) for name in FLAGS},
    }
    try:
        return parsed(NewAlarm, given)
    except RequestError as error:
        name, colon, message = str(error).partition(": ")
        if colon and name in _LABELS:
            raise FieldError(f"{_LABELS[name]}: {message}", name) from None
        raise


def bound_of(form: Posted, name: str) -> float | None:
    """A bound as a share; None where the field is empty. Raises FieldError."""
    typed = form.text(name)
    if not typed:
        return None
    try:
        number = float(typed.removesuffix("%").strip().replace(",", "."))
    except ValueError:
        number = 0.0
    if not 0 < number < 100:
        label = RULES[name.rpartition("_")[0]].capitalize()
        raise FieldError(
            f"{label}: {typed[:20]!a} is not a number of {BOUNDS[name]} between 0 and 100", name
        )
    return number / 100
