"""The form of a job as a specification."""

from __future__ import annotations

from typing import Any

from decoder.service.pages.web import Posted, parsed
from decoder.service.specs import OF_VALUES, JobSpec, Kind

_CHOICES = ("method", "correction", "alpha", "level", "repeats")


def spec_of_form(kind: Kind, form: Posted) -> JobSpec:
    """What was chosen, as a job. Raises RequestError in words."""
    given: dict[str, Any] = {"kind": kind, "source": _source(form, "")}
    if kind == Kind.COMPARE:
        given["before"] = _source(form, "before_")
    if kind == Kind.SERIES:
        given["each"] = form.text("each", "day")
    if kind == Kind.DENSITY:
        given["map"] = _given(form, ("map_method", "split", "alpha", "level", "repeats"))
        given["map"]["slots"] = form.all("slots")
    elif kind == Kind.DISCOVER:
        given["find"] = _given(form, ("alpha", "level", "crowd", "repeats"))
    else:
        given["options"] = _given(form, _CHOICES)
    if kind in OF_VALUES:
        given["candidates"] = _candidates(form)
    return parsed(JobSpec, given)


def _source(form: Posted, before: str) -> dict[str, Any]:
    aggregates, files = form.all(f"{before}aggregates"), form.all(f"{before}files")
    source: dict[str, Any] = {}
    if aggregates:
        source["aggregates"] = aggregates
    if files:
        source["files"] = files
    metric = form.text("metric")
    if metric and not source:
        window = {"first": form.text(f"{before}first"), "last": form.text(f"{before}last")}
        days = {name: day for name, day in window.items() if day}
        source["collector"] = {"metric": metric, **days}
    return source


def _candidates(form: Posted) -> dict[str, Any]:
    """The list, by `id` or `id:version`; or a range of numbers or of days."""
    given: dict[str, Any] = {}
    name, _, version = form.text("list").partition(":")
    if name:
        given["list"] = name
    if version:
        given["version"] = version
    for kind in ("numbers", "dates"):
        if text := form.text(kind):
            given[kind] = [part.strip() for part in text.replace(" to ", ":").split(":")]
    return given


def _given(form: Posted, names: tuple[str, ...]) -> dict[str, Any]:
    texts = {name: form.text(name) for name in names}
    return {name.removeprefix("map_"): text for name, text in texts.items() if text}
