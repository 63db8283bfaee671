"""Sentences and tables about a schedule's findings and about the rules of its alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from decoder_service.schedules.series import SeriesView

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
