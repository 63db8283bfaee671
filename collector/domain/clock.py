"""The collector's clock, which is passed as an argument, and functions for the current day."""

import time as system_time
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

from rappor_core.calendar import date_of, day_of

Clock = Callable[[], datetime]
TOLERANCE = timedelta(hours=1)  # tolerated corrections of a running clock


def utc_now() -> datetime:
    """Return the system's current time, UTC."""
    return datetime.now(UTC)


def boot_seconds() -> float:
    """Return the seconds of a monotonic clock, which includes sleep if the system supports it."""
    boot_clock = getattr(system_time, "CLOCK_BOOTTIME", None)
    if boot_clock is None:
        return system_time.monotonic()
    return system_time.clock_gettime(boot_clock)


class GuardedClock:
    """A clock that advances only as far as other clocks confirm, because closing days is permanent.

    It starts at the last day that the database has seen. Elapsed time or PostgreSQL's clock
    confirms an advance. If the clock is further ahead, it is suspect; the time is then the last day
    seen plus the elapsed time. Before the first `check`, the time is the system's.
    """

    def __init__(
        self, clock: Clock = utc_now, *, elapsed: Callable[[], float] = boot_seconds
    ) -> None:
        """Set the clocks; do not compare them yet.

        Args:
            clock: The clock that may be wrong, UTC.
            elapsed: A function that returns seconds since any fixed moment.
        """
        self.unguarded = clock
        self._elapsed = elapsed
        self._start: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        """Return the confirmed time."""
        now = self.unguarded()
        return min(now, self._borne_out()) if self._is_beyond(now) else now

    @property
    def is_suspect(self) -> bool:
        """Return whether the clock is ahead of the confirmed time."""
        return self._is_beyond(self.unguarded())

    def check(self, last_day: int | None, database_time: datetime | None = None) -> None:
        """Compare the clock with the database's information.

        Args:
            last_day: The last day that a collector has seen; None if unknown.
            database_time: The time of a database server's own clock.
        """
        now = self.unguarded()
        by_database = database_time is not None and now <= database_time + TOLERANCE
        by_collectors = last_day is None or last_day == today(self.unguarded)  # or by an admin
        if self._start is None and last_day is not None:
            self._begin_at(_first_moment(now, last_day))
        if self._start is None or (self.is_suspect and (by_database or by_collectors)):
            self._begin_at(now)

    def _begin_at(self, moment: datetime) -> None:
        self._start = moment, self._elapsed()

    def _borne_out(self) -> datetime:
        if self._start is None:
            return datetime.max.replace(tzinfo=UTC)
        moment, seconds = self._start
        return moment + timedelta(seconds=self._elapsed() - seconds)

    def _is_beyond(self, now: datetime) -> bool:
        return self._start is not None and now > self._borne_out() + TOLERANCE


def _first_moment(now: datetime, last_day: int) -> datetime:
    """Return the confirmed time at a start, from which elapsed time counts.

    It is `now` if the clock is on the last day seen or the next day. If the clock is further ahead,
    it is the beginning of the last day. If the clock is behind, it may be corrected later, so it is
    confirmed through the day after the last day.
    """
    start = datetime.combine(date_of(last_day), time.min, UTC)
    end = start + timedelta(days=2)
    if now < start:
        return end - TOLERANCE
    return now if now < end else start


def today(clock: Clock) -> int:
    """Return the current UTC day, in days since 1970-01-01."""
    return day_of(clock().astimezone(UTC).date())


def latest_day(clock: Clock, skew: timedelta) -> int:
    """Return the latest day that a device whose clock is ahead by `skew` may report.

    A suspect collector clock may be right, for example after a long outage, so its day is accepted.
    """
    if isinstance(clock, GuardedClock):
        clock = clock.unguarded
    return day_of((clock() + skew).astimezone(UTC).date())
