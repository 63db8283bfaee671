"""The days, weeks and months that a schedule decodes."""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum

DAY = timedelta(days=1)


class Every(StrEnum):
    """Length of the windows of a schedule; weeks are Monday to Sunday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def period_start(every: Every, day: date) -> date:
    """The first day of the period that a day is in."""
    if every is Every.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if every is Every.MONTH else day


def period_end(every: Every, day: date) -> date:
    """The last day of the period that a day is in."""
    if every is Every.WEEK:
        return day + timedelta(days=6 - day.weekday())
    if every is Every.MONTH:
        return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - DAY
    return day
