"""Local date and hour of a moment, for slots and periods."""

from __future__ import annotations

import time
from datetime import date, datetime
from typing import NamedTuple

from rappor_core.calendar import EPOCH_ORDINAL, day_of
from rappor_core.errors import ValueRefusedError

SECONDS_AN_HOUR = 3_600


class Moment(NamedTuple):
    """A moment in the local time of the device: date, hour and second.

    at: seconds since 1970, UTC.  day: of the local date, since 1970-01-01.  hour: 0 to 23.
    left: seconds until the local hour ends.
    """

    at: float
    day: int
    hour: int
    left: float


def moment_of(at: datetime) -> Moment:
    """Take apart a datetime with a time zone. Raises ValueRefusedError for anything else."""
    if not isinstance(at, datetime):
        raise ValueRefusedError(
            f"`at` is of type {type(at).__name__!r}; pass a datetime with a time zone, or leave it "
            "out for now"
        )
    if at.utcoffset() is None:
        raise ValueRefusedError(
            "`at` has no time zone, so its slot is not known; pass datetime.now().astimezone()"
        )
    gone = at.minute * 60 + at.second + at.microsecond * 1e-6
    return Moment(at.timestamp(), _day(at), at.hour, SECONDS_AN_HOUR - gone)


def moment_at(now: float) -> Moment:
    """Take apart seconds since 1970, in the system's time zone."""
    local = time.localtime(now)
    day = _day(date(local.tm_year, local.tm_mon, local.tm_mday))
    gone = local.tm_min * 60 + min(local.tm_sec, 59) + now % 1
    return Moment(now, day, local.tm_hour, SECONDS_AN_HOUR - gone)


def _day(local: date) -> int:
    """The local date as days since 1970-01-01; a clock without a battery shows no date before."""
    return max(0, day_of(local))


def is_weekend(day: int) -> bool:
    """Whether a day since 1970-01-01 is a Saturday or Sunday."""
    return (day + EPOCH_ORDINAL - 1) % 7 >= 5
