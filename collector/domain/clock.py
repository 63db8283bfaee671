"""The collector's clock: the time comes in as an argument, days go out as `rappor_core.calendar`
counts them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rappor_core.calendar import day_of

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present time of the system's clock, UTC."""
    return datetime.now(UTC)


def today(clock: Clock) -> int:
    """The current day, UTC, since 1970-01-01."""
    return day_of(clock().astimezone(UTC).date())


def latest_day(clock: Clock, skew: timedelta) -> int:
    """The latest day that a device whose clock is fast by `skew` may state."""
    return day_of((clock() + skew).astimezone(UTC).date())
