"""Periods of reporting, as dates show them."""

from __future__ import annotations

from datetime import date, timedelta


def last_days(period: str, first: date, last: date) -> int:
    """How many days from `first` to `last` end a period: a day, week (Sunday) or month."""
    following = (first + timedelta(number) for number in range(1, (last - first).days + 2))
    if period == "month":
        return sum(day.day == 1 for day in following)
    return sum(period == "day" or day.weekday() == 0 for day in following)
