"""How often devices report in a window: rho = sum r^2 / sum r, if device i sent r_i reports.

rho never exceeds the largest r, which the metric's definition bounds.
"""

from __future__ import annotations

from datetime import date

from rappor_core.aggregate import Aggregate, periods_ended
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.metrics.location import Location
from rappor_core.metrics.metric import Metric


def repetition(aggregate: Aggregate, repeats: float | None) -> float:
    """rho = sum r^2 / sum r: as the analyst gave it, or the largest that the definition allows;
    >= 1.

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


def location_repetition(
    aggregate: Aggregate, metric: Metric, location: Location, repeats: float | None
) -> float:
    """rho of a location metric: as the analyst gave it, or the largest that its definition
    allows; >= 1.

    A report is dated by the last day of its period, so there is at most one for each such day in
    the window; in mode `window` one in `window` of them, or in each block that they can touch. Of a
    window without days: `repetition`.
    """
    if repeats is not None or aggregate.first_day is None or aggregate.last_day is None:
        return repetition(aggregate, repeats)
    ends = periods_ended(metric.period, aggregate.first_day, aggregate.last_day)
    most = location.most_reports_in(ends)
    return float(max(1, min(most, metric.max_reports or most)))


def collected_repetition(aggregate: Aggregate, repeats: float | None) -> float:
    """rho of a metric that is reported after each period: as the analyst gave it, or its bound;
    >= 1.

    A report is dated by the last day of its period, so a device has at most one for each such day
    in the window, and `max_reports` in all. Of a window without days: `repetition`.
    """
    if repeats is not None or aggregate.first_day is None or aggregate.last_day is None:
        return repetition(aggregate, repeats)
    unit = str(aggregate.definition.get("period", "day"))
    ends = periods_ended(unit, aggregate.first_day, aggregate.last_day)
    most = aggregate.definition.get("max_reports")
    return float(max(1, ends if most is None else min(ends, most)))


def _periods(aggregate: Aggregate) -> int:
    """How many periods the window can touch; 1 where it is not known."""
    if aggregate.first_day is None or aggregate.last_day is None:
        return 1
    unit = str(aggregate.definition.get("period", "day"))
    return periods_touched(unit, aggregate.first_day, aggregate.last_day)


def periods_touched(unit: str, first: date, last: date) -> int:
    """Largest number of periods of a unit that a window of days can touch."""
    days, length = (last - first).days + 1, PERIOD_DAYS[unit]
    return days if length == 1 else (days - 2) // length + 2
