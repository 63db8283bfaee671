"""The state of a schedule: whether it goes on, and if not, why and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from decoder_service.metrics.rules import days_held
from decoder_service.schedules.rules import (
    DAY,
    Every,
    period_end,
    period_start,
    spec_of_schedule,
)
from decoder_service.shell.models import ScheduleRow, WindowRow
from decoder_service.shell.operations import shown

UNCHECKED = "no process has checked it yet; rappor decoder serve does"
FORGOTTEN_SECONDS = 25 * 3600.0  # without a check: also where one comes once a day, by cron


class ScheduleState(StrEnum):
    """The states of a schedule. blocked: somebody has to act. waiting: for days that are not
    closed."""

    READY = "ready"
    WAITING = "waiting"
    BLOCKED = "blocked"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """The state of a schedule, with the reason and the remedy in words.

    since: when it began to be in this state.  checked: when a process last found so.  None where
    that is not known.
    """

    state: ScheduleState
    reason: str
    since: float | None = None
    checked: float | None = None


def next_window(
    row: ScheduleRow,
    versions: Sequence[Mapping[str, Any]],
    windows: Sequence[WindowRow],
    spec_digest: str,
) -> ScheduleStatus:
    """Whether the next window of the version that reports are taken of is closed.

    Args:
        row: the schedule.
        versions: of its metric, as the collector lists them.
        windows: those that are stored.
        spec_digest: of what is asked of each now.
    """
    version = next((one for one in versions if one["state"] == "current"), None)
    if version is None:
        ended = f"the collector takes no more reports of it ({versions[-1]['state']})"
        return ScheduleStatus(
            ScheduleState.WAITING, f"{ended}: what it serves is decoded, and no more comes"
        )
    served = version["served"]
    if not served:
        return ScheduleStatus(
            ScheduleState.WAITING,
            f"the collector serves no day of it yet{days_held(version, None)}",
        )
    key = (spec_digest, version["params_id"])
    mine = [one.last_day for one in windows if (one.digest, one.params_id) == key]
    every, first = Every(row.every), first_window_day(row, str(served["first_day"]))
    if mine:
        first = date.fromisoformat(max(mine)) + DAY
    last = period_end(every, first)
    if not mine and spec_of_schedule(row).operation == "series":
        last = period_end(every, last + DAY)  # it begins with two windows
    if last.isoformat() <= str(served["last_day"]):
        return ScheduleStatus(ScheduleState.READY, "the next check queues a window")
    return ScheduleStatus(
        ScheduleState.WAITING,
        f"the next window is {first} to {last}, and the collector serves days up to "
        f"{served['last_day']}{days_held(version, last)}",
    )


def shown_status(status: ScheduleStatus) -> dict[str, str | None]:
    """A schedule's state as API and command line show it."""
    return shown(status, "state reason since checked")


def first_window_day(row: ScheduleRow, served_from: str) -> date:
    """The first day of the first window of a schedule. served_from: the first day of all."""
    first = period_start(Every(row.every), date.fromisoformat(served_from))
    return max(first, date.fromisoformat(row.first_day)) if row.first_day else first
