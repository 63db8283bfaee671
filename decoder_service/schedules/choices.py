"""What a person chooses of a schedule, as it comes in."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import StringConstraints

from decoder_service.jobs.specs import CandidateSpec, Choices, MetricName, StrictModel, WeightSpec
from decoder_service.schedules.multiplicity import Family
from decoder_service.schedules.periods import Every

Name = Annotated[str, StringConstraints(max_length=200)]


class ScheduleChoices(StrictModel):
    """The properties of a schedule that may be changed later.

    candidates, weights: with a list and no version, each new version decodes all windows again.
    options: of each decoding; `alpha` is the level of the family.  family: over what it holds.
    first_day: nothing before it is decoded.
    """

    name: Name
    candidates: CandidateSpec = CandidateSpec()
    weights: WeightSpec | None = None
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
