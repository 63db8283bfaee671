"""What a person chooses of a schedule, as it comes in, and its days, weeks and months."""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum
from typing import Literal

from decoder_service.jobs.specs import (
    CandidateSpec,
    Choices,
    ListSpec,
    MetricName,
    Name,
    StrictModel,
)
from decoder_service.schedules.series import Family


class ScheduleChoices(StrictModel):
    """The properties of a schedule that may be changed later.

    candidates, weights: with a list and no version, each new version decodes all windows again.
    options: of each decoding; `alpha` is the level of the family.  family: over what it holds.
    first_day: nothing before it is decoded.
    """

    name: Name
    candidates: CandidateSpec = CandidateSpec()
    weights: ListSpec | None = None
    options: Choices = Choices()
    family: Family = Family.WINDOW
    first_day: date | None = None


class NewSchedule(ScheduleChoices):
    """The request for a schedule: a metric, decoded in every sealed window.

    operation: `decode` each window for good, or make a `series` of the last ones anew.
    """

    metric: MetricName
    every: Every
    operation: Literal["decode", "series"] = "decode"


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
