"""Conversion of a submitted form to a job specification."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from pydantic import BaseModel

from decoder.kinds.interface import KindDecoder
from decoder_service.jobs.specs import JobSpec
from decoder_service.shell.errors import FieldError
from decoder_service.shell.web import Posted, parsed
from rappor_server.errors import RequestError

LABELS = {  # the labels of form fields, by their names in a specification
    "metric": "Metric", "source": "Metric", "aggregates": "Aggregates", "first": "From day",
    "last": "To day", "candidates": "Candidates", "list": "List",
    "numbers": "Range of numbers", "dates": "Range of days", "weights": "Weights",
    "method": "Estimator", "correction": "Correction", "alpha": "Level of the correction",
    "level": "Level of the intervals", "repeats": "Repetition", "crowd": "Minimum reports",
    "areas": "Areas", "split": "One map per", "known": "Known flows", "min_km": "Minimum distance",
    "top": "Undetected flows", "each": "One window per", "name": "Name",
    "every": "One window per", "operation": "Operation", "first_day": "From day",
    "target": "Target", "sources": "Results", "owner": "Owner", "audience": "Audience",
    "note": "Note", "policy": "Policy",
}  # fmt: skip
Known = TypeVar("Known", bound=BaseModel)
LEVELS, PERCENT = ("alpha", "level"), "_percent"  # fields of the form in percent
_CHOICES = ("method", "correction", "alpha", "level", "repeats")


def spec_of_form(operation: str, kind: KindDecoder, form: Posted) -> JobSpec:
    """Build a job specification from a submitted form. Raises RequestError if invalid.

    Args:
        operation: The operation of the job.
        kind: The decoder of the metric's kind, whose fields the form has.
        form: The form as posted.
    """
    source: dict[str, Any] = {}
    if aggregates := form.all("aggregates"):
        source["aggregates"] = aggregates
    elif metric := form.text("metric"):
        source["collector"] = {"metric": metric, **_given(form, "first", "last")}
    fields: dict[str, Any] = {"operation": operation, "source": source}
    if operation == "compare":
        fields["before"] = {"aggregates": form.all("before_aggregates")}
    if operation == "series":
        fields["each"] = form.text("each", "day")
    members: dict[str, Any] = {
        "candidates": candidates_of_form(form),
        "map": _given(form, "map_method", "split") | {"slots": form.all("slots")},
        "crowd": form.text("crowd"),
        "flows": _given(form, "min_km", "top"),
        **{name: list_of_form(form, name) for name in ("weights", "areas", "known")},
    }
    fields |= {name: member for name, member in members.items() if name in kind.members}
    fields["options"] = choices_of_form(form)
    return parsed_in_labels(JobSpec, {n: v for n, v in fields.items() if v != ""})


def form_fields(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the (name, value) form fields that reproduce a job specification, without counts."""
    options, choices = spec["options"], spec["map"]
    fields = [("crowd", spec["crowd"]), ("map_method", choices["method"])]
    fields += [("split", choices["split"]), *(("slots", slot) for slot in choices["slots"])]
    fields += [(name, options[name]) for name in _CHOICES]
    fields += [(name, spec["flows"][name]) for name in ("min_km", "top")]
    named = {"list": spec["candidates"]} | {name: spec[name]
                                            for name in ("weights", "known", "areas")}  # fmt: skip
    for name, choice in named.items():
        if choice and choice["list"] is not None:
            version = "" if choice["version"] is None else f":{choice['version']}"
            fields.append((name, choice["list"] + version))
    ends = ((name, spec["candidates"][name]) for name in ("numbers", "dates"))
    fields += [(name, ":".join(map(str, pair))) for name, pair in ends if pair is not None]
    return [(name, str(value)) for name, value in fields if value is not None]


def parsed_in_labels(model: type[Known], values: dict[str, Any]) -> Known:
    """Validate a form. Raises RequestError, with the form's labels, if it is invalid."""
    try:
        return parsed(model, values)
    except RequestError as error:
        raise in_labels(error) from None


def in_labels(error: RequestError) -> RequestError:
    """Return an error that names fields by their labels, as a FieldError if it is about one."""
    name, colon, message = str(error).partition(": ")
    field = next((part for part in reversed(name.split(".")) if part in LABELS), "")
    if not colon or not field:
        return error
    if message == "Field required" or message.startswith(("'':", "[]:")):
        message = "is empty; give one"
    return FieldError(f"{LABELS[field]}: {message}", field + (PERCENT if field in LEVELS else ""))


def choices_of_form(form: Posted) -> dict[str, str]:
    """Return the decoding options that a form gives; its levels may be in percent."""
    levels = {name: share_of_percent(form, name + PERCENT, LABELS[name]) for name in LEVELS
              if form.text(name + PERCENT)}  # fmt: skip
    return _given(form, *_CHOICES) | levels


def candidates_of_form(form: Posted) -> dict[str, Any]:
    """Return a form's candidates: a list (`id` or `id:version`), or a range of numbers or days."""
    fields: dict[str, Any] = list_of_form(form, "list") or {}
    for kind in ("numbers", "dates"):
        if text := form.text(kind):
            fields[kind] = [part.strip() for part in text.replace(" to ", ":").split(":")]
    return fields


def list_of_form(form: Posted, name: str) -> dict[str, str] | None:
    """Return the list that a field names as `id` or `id:version`; None if the field is empty."""
    listed, _, version = form.text(name).partition(":")
    if not listed:
        return None
    return {"list": listed} | ({"version": version} if version else {})


def _given(form: Posted, *names: str) -> dict[str, Any]:
    return {name.removeprefix("map_"): text for name in names if (text := form.text(name))}


def share_of_percent(form: Posted, field: str, label: str, unit: str = "percent") -> str:
    """Convert a field from percent to a fraction. Raises FieldError, with its label, if invalid."""
    typed = form.text(field)
    try:
        share = Decimal(typed.removesuffix("%").strip().replace(",", ".")) / 100
    except InvalidOperation:
        share = Decimal(0)
    if not share.is_finite() or not 0 < share < 1:
        raise FieldError(
            f"{label}: {typed[:20]!a} is not a number of {unit} between 0 and 100", field
        )
    return str(share)


def percent_of_share(text: str) -> str:
    """Return a fraction as the form shows it, in percent (0.05 as 5); other text unchanged."""
    try:
        return f"{Decimal(text) * 100:f}".rstrip("0").rstrip(".") if "." in text else text
    except InvalidOperation:
        return text
