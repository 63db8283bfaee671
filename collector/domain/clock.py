"""The collector's clock: the time comes in as an argument, days go out as `rappor_core.calendar`
counts them."""

import time as system_time
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

from rappor_core.calendar import date_of, day_of

Clock = Callable[[], datetime]
TOLERANCE = timedelta(hours=1)  # corrections of a clock that runs


def utc_now() -> datetime:
    """Return the present time of the system's clock, UTC."""
    return datetime.now(UTC)


def boot_seconds() -> float:
    """Seconds of a clock that nobody sets; where the system has one, it counts while it sleeps."""
    boot_clock = getattr(system_time, "CLOCK_BOOTTIME", None)
    if boot_clock is None:
        return system_time.monotonic()
    return system_time.clock_gettime(boot_clock)


class GuardedClock:
    """A clock that goes only as far as other clocks bear out, because days are closed permanently.

    It starts at the last day that the database has seen, and is borne out by elapsed time or by
    PostgreSQL's clock. A clock that is further ahead is suspect: it then gives the last day seen
    plus the elapsed time. Before the first `check` it gives the system's time.
    """

    def __init__(
        self, clock: Clock = utc_now, *, elapsed: Callable[[], float] = boot_seconds
    ) -> None:
        """Compare with nothing yet.

        Args:
            clock: The clock that may be wrong, UTC.
            elapsed: Seconds since any moment.
        """
        self.unguarded = clock
        self._elapsed = elapsed
        self._start: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        """Return the time that is borne out."""
        now = self.unguarded()
        return min(now, self._borne_out()) if self._is_beyond(now) else now

    @property
    def is_suspect(self) -> bool:
        """Whether the clock is ahead of what bears it out."""
        return self._is_beyond(self.unguarded())

    def check(self, last_day: int | None, database_time: datetime | None = None) -> None:
        """Compare the clock with what the database knows.

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
    """Return the moment from which elapsed time counts after a start: now, on the last day seen and
    the next; else, where the clock is ahead, the beginning of the last day.

    A clock that is behind may be put right, so it is borne out through the day after the last.
    """
    start = datetime.combine(date_of(last_day), time.min, UTC)
    end = start + timedelta(days=2)
    if now < start:
        return end - TOLERANCE
    return now if now < end else start


def today(clock: Clock) -> int:
    """Return the current day, UTC, since 1970-01-01."""
    return day_of(clock().astimezone(UTC).date())


def latest_day(clock: Clock, skew: timedelta) -> int:
    """Return the latest day that a device whose clock is fast by `skew` may state.

    A suspect clock may be right, as after a long stop, so that reports of its day are accepted.
    """
    if isinstance(clock, GuardedClock):
        clock = clock.unguarded
    return day_of((clock() + skew).astimezone(UTC).date())
