"""What an analyst may choose. Frozen and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from decoder.errors import DecodeError
from decoder.inference.multiple_testing import CORRECTIONS, Correction
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import PERIOD_DAYS

Method = Literal["cavity", "lasso"]


@dataclass(frozen=True)
class DecodeOptions:
    """Choices of a decoding.

    method: `cavity` or `lasso`; metrics with one bit a value need neither.
    correction: how many candidates are allowed for; alpha: its level, in (0, 1).
    level: of the intervals, in (0, 1).
    repeats: rho = sum r^2 / sum r over devices, where device i sent r_i of the reports; r when
        each sent r. None: the most that the metric's definition allows in the window.
    largest_p: never call a value found whose own p-value is above this.
    true_shares: value -> share, where known, to be shown beside the estimates.
    without_cohorts: cohorts whose reports are not used, such as those that follow no model.
    full_fit: where it is affordable, let all candidates take part in the fit of method `cavity`.
        Without it only the probable ones do: much quicker where bits and candidates are many, with
        errors up to a tenth larger where many small shares fall on few bits.

    Raises DecodeError with the bad value.
    """

    method: Method = "cavity"
    correction: Correction = "fdr"
    alpha: float = 0.05
    level: float = 0.95
    repeats: float | None = None
    largest_p: float = 1.0
    true_shares: Mapping[str, float] | None = None
    full_fit: bool = True
    without_cohorts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check each choice alone."""
        if self.method not in get_args(Method):
            raise DecodeError(f"method = {self.method!r} is not one of {get_args(Method)}")
        if self.correction not in CORRECTIONS:
            raise DecodeError(
                f"correction = {self.correction!r} is not one of {', '.join(CORRECTIONS)}"
            )
        for name in ("alpha", "level"):
            if not 0 < getattr(self, name) < 1:
                raise DecodeError(f"{name} = {getattr(self, name)!r} is not between 0 and 1")
        if not 0 < self.largest_p <= 1:
            raise DecodeError(f"largest_p = {self.largest_p!r} is not above 0 and at most 1")
        if self.repeats is not None and not (math.isfinite(self.repeats) and self.repeats >= 1):
            raise DecodeError(f"repeats = {self.repeats!r} is not a number of 1 or more")


def repetition(aggregate: Aggregate, repeats: float | None) -> float:
    """rho = sum r^2 / sum r: as told, or the largest that the definition allows; >= 1.

    A definition bounds r by max_reports_per_period times the periods that the window touches,
    and by max_reports. rho never exceeds the largest r. Without a definition: 1.
    """
    if repeats is not None:
        return float(repeats)
    definition = aggregate.definition
    if "max_reports_per_period" not in definition:
        return 1.0
    bound = float(definition["max_reports_per_period"]) * _periods(aggregate)
    most = definition.get("max_reports")
    return max(1.0, min(bound, float(most) if most is not None else bound))


def _periods(aggregate: Aggregate) -> int:
    """How many periods the window can touch; 1 where it is not known."""
    if aggregate.first_day is None or aggregate.last_day is None:
        return 1
    days = (aggregate.last_day - aggregate.first_day).days + 1
    length = PERIOD_DAYS[str(aggregate.definition.get("period", "day"))]
    return days if length == 1 else (days - 2) // length + 2
