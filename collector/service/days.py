"""Days as the store holds them: whole days since 1970-01-01, UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from rappor_core.wire.report import EPOCH

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The system's clock."""
    return datetime.now(UTC)


def number(day: date) -> int:
    """Days since 1970-01-01."""
    return (day - EPOCH).days


def from_number(days: int) -> date:
    """The inverse of `number`."""
    return EPOCH + timedelta(days=days)


def today(clock: Clock) -> int:
    """The current day, as a number."""
    return number(clock().astimezone(UTC).date())


def latest_day(clock: Clock, skew: timedelta) -> int:
    """The latest day that a device whose clock is fast by `skew` may state."""
    return number((clock() + skew).astimezone(UTC).date())
