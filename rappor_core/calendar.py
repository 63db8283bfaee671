"""Conversions between dates, day numbers since 1970-01-01 (usually UTC), and calendar periods."""

from datetime import date

SECONDS_A_DAY = 86_400
EPOCH = date(1970, 1, 1)
EPOCH_ORDINAL = EPOCH.toordinal()
PERIOD_DAYS = {"day": 1, "week": 7, "month": 28}  # the shortest length of each period
MEAN_DAYS = {"day": 1.0, "week": 7.0, "month": 30.436875}


def date_of(day: int) -> date:
    """Return the date of a day since 1970-01-01."""
    return date.fromordinal(day + EPOCH_ORDINAL)


def day_of(date_: date) -> int:
    """Return a date as the number of days since 1970-01-01."""
    return date_.toordinal() - EPOCH_ORDINAL


def period_number(period: str, day: int) -> int:
    """Return the number of the period that contains a day.

    Args:
        period: `day`, `week` (from Monday) or `month`.
        day: The day, counted from 1970-01-01, UTC, 0 or more.

    Returns:
        The number; consecutive periods have consecutive numbers.
    """
    if period == "day":
        return day
    if period == "week":
        return (day + EPOCH_ORDINAL - 1) // 7
    date_ = date_of(day)
    return date_.year * 12 + date_.month - 1


def last_day(period: str, number: int) -> int:
    """Return the last day of a period; the inverse of `period_number`.

    Args:
        period: `day`, `week` or `month`.
        number: The number that `period_number` returns for the period.

    Returns:
        The day, counted from 1970-01-01, UTC.
    """
    if period == "day":
        return number
    if period == "week":
        return number * 7 + 7 - EPOCH_ORDINAL
    year, month = divmod(number + 1, 12)
    return day_of(date(year, month + 1, 1)) - 1
