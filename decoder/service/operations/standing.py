"""Whether a schedule goes on, and if not, why and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from decoder.service.errors import ServiceError
from decoder.service.operations.metrics import Metrics
from decoder.service.operations.periods import DAY, Every, period_end, period_start
from decoder.service.operations.permissions import Person, Role
from decoder.service.operations.schedules import Schedules, question_of, spec_of_schedule
from decoder.service.operations.spec_checks import unknown_metric
from decoder.service.operations.ticking import NO_COLLECTOR, NO_OWNER, Ticker
from decoder.service.store.engine import Database
from decoder.service.store.schedule_windows import WindowRow, load_windows
from decoder.service.store.schedules import ScheduleRow

NOBODY = Person("", "", Role.VIEWER)


class State(StrEnum):
    """Of a schedule. blocked: somebody has to act.  waiting: for days that are not closed."""

    READY = "ready"
    WAITING = "waiting"
    BLOCKED = "blocked"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a schedule, with the reason and the way out in words."""

    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Standings:
    """Why schedules stand, by what the collector said last and by the last check of this process.

    has_key: whether the settings have a key for the collector.
    """

    database: Database
    schedules: Schedules
    metrics: Metrics
    ticker: Ticker
    has_key: bool

    def of(self, person: Person, schedule_id: str) -> Standing:
        """That of a schedule that one may see. Raises as `Schedules.get`."""
        return self.of_row(self.schedules.get(person, schedule_id))

    def of_row(self, row: ScheduleRow) -> Standing:
        """That of a schedule."""
        if not row.enabled:
            return Standing(
                State.PAUSED, "a person paused it: no window is queued until it goes on"
            )
        if self.ticker.collector is None:
            return Standing(State.BLOCKED, NO_COLLECTOR)
        with self.database.read() as connection:
            if self.schedules.access.person_of_id(connection, row.owner) is None:
                return Standing(State.BLOCKED, NO_OWNER)
            windows = load_windows(connection, row.id)
        versions, others, unreached = self.metrics.versions_of(row.metric)
        if unreached:
            return Standing(State.BLOCKED, unreached + self._about_key())
        if not versions:
            way_out = "; an operator declares it there, or delete this schedule"
            return Standing(State.BLOCKED, unknown_metric(row.metric, others) + way_out)
        told = self.ticker.problems.get(row.id)
        if told:
            return Standing(State.BLOCKED, f"at the last check: {told}")
        return self._waits(row, versions, windows)

    def _about_key(self) -> str:
        if self.has_key:
            return ""
        return (
            "; this service has no key for the collector: an operator sets "
            "RAPPOR_DECODER_COLLECTOR_KEY to one of scope aggregate"
        )

    def _waits(
        self, row: ScheduleRow, versions: list[dict[str, Any]], windows: list[WindowRow]
    ) -> Standing:
        """Whether the next window of the version that reports are taken of is closed."""
        version = next((one for one in versions if one["state"] == "current"), None)
        if version is None:
            ended = f"the collector takes no more reports of it ({versions[-1]['state']})"
            return Standing(State.WAITING, f"{ended}: what it serves is decoded, and no more comes")
        served = version["served"]
        if not served:
            return Standing(
                State.WAITING, f"the collector serves no day of it yet{_held(version, None)}"
            )
        question = self._question(row)
        if isinstance(question, Standing):
            return question
        key = (question, version["params_id"])
        mine = [one.last_day for one in windows if (one.digest, one.params_id) == key]
        first, last = _next_window(row, str(served["first_day"]), max(mine, default=""))
        if last.isoformat() <= str(served["last_day"]):
            return Standing(State.READY, "the next check queues a window")
        return Standing(
            State.WAITING,
            f"the next window is {first} to {last}, and the collector serves days up to "
            f"{served['last_day']}{_held(version, last)}",
        )

    def _question(self, row: ScheduleRow) -> str | Standing:
        """The digest of what is asked of a window; or that its list is gone."""
        with self.database.read() as connection:
            owner = self.schedules.access.person_of_id(connection, row.owner)
            try:
                given = (connection, owner or NOBODY, spec_of_schedule(row))
                pinned = self.schedules.jobs.pinned(*given)
            except ServiceError as error:
                return Standing(State.BLOCKED, f"{error}; change the schedule")
        return question_of(pinned)


def _next_window(row: ScheduleRow, served_from: str, known_to: str) -> tuple[date, date]:
    """The window after those that are known, or the first one."""
    every = Every(row.every)
    if known_to:
        first = date.fromisoformat(known_to) + DAY
    else:
        first = period_start(every, date.fromisoformat(served_from))
        first = max(first, date.fromisoformat(row.first_day)) if row.first_day else first
    return first, period_end(every, first)


def _held(version: dict[str, Any], last: date | None) -> str:
    """What the collector has beside that is not served, and how it comes to be.

    last: of the window that is waited for.
    """
    waiting, closed = version["waiting"], version["closed_through"]
    few = (
        f"; its days from {waiting['first_day']} on are closed and have too few reports "
        f"({waiting['reports']}): they wait for more"
        if waiting
        else ""
    )
    if closed and last is not None and closed >= last.isoformat() and not waiting:
        return f"; the days after are closed up to {closed} and hold no reports"
    until = f"it has closed days up to {closed}" if closed else "it has closed no day"
    return f"{few}; {until}, and closes each once its time for reports is over (rappor close: now)"
