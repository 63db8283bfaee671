"""Find the causes for which alarms send a message when a window is complete; each cause is
stored once.

The event of a cause is inserted in the transaction that ends its window, under a key that is
unique for the alarm.
"""

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyarrow import parquet
from sqlalchemy import select
from sqlalchemy.orm import Session

from decoder.comparison.differences import corrected, independent, more_than
from decoder.inference.diagnostics import odd_cohorts
from decoder.kinds.result import RESULTS
from decoder.typing import Flags, Floats
from decoder_service.alarms.rules import Rules, load_alarms
from decoder_service.jobs.specs import canonical
from decoder_service.metrics.rules import RemoteCollector
from decoder_service.results.rows import RESULT_FILES
from decoder_service.schedules.rules import Schedules, add_values
from decoder_service.schedules.windows import change_window, spec_of_schedule
from decoder_service.shell.database import Operations, insert_once, save, shown
from decoder_service.shell.models import (
    AlarmRow,
    EventRow,
    EventState,
    ScheduleRow,
    WindowRow,
    WindowState,
    readings,
)
from rappor_server.errors import ConflictError

MAX_SHOWN = 20  # values of one event
_CANDIDATES = "candidates.parquet"
_NUMBERS = ("estimate", "std_error")
USUAL_WINDOWS = 8  # whose median is what is expected
FEW_REPORTS = 100.0  # of a day, below which its refusals tell nothing


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """A cause for a message. values: text of strangers, shown where an alarm says so.

    bound: of the alarms that it is for; None for a rule without one.
    """

    rule: str
    text: str
    values: tuple[str, ...] = ()
    bound: float | None = None


@dataclass(frozen=True)
class WindowTests:
    """The tests of one window: a row for each distinguishable value, (M,).

    cohort_z: of the cohorts.
    """

    values: tuple[str, ...]
    estimate: Floats
    std_error: Floats
    detected: Flags
    cohort_z: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEvents(Operations):
    """Completes windows of schedules, and stores the messages that their alarms send."""

    schedules: Schedules

    def complete(
        self, schedule: ScheduleRow, earlier: list[WindowRow], window: WindowRow, result_id: str
    ) -> WindowRow:
        """Complete a window whose result exists, unless another process was first; store its
        events."""
        now = replace(window, state=WindowState.DONE, result_id=result_id)
        alpha = spec_of_schedule(schedule).options.alpha
        done = [one for one in earlier if one.state == WindowState.DONE]
        with self.database.reading() as db:
            alarms = load_alarms(db, [schedule.id])
            tests = load_tests(db, [*done[-1:], now])
        rules = [Rules.model_validate_json(alarm.rules) for alarm in alarms]
        try:
            with self.database.writing() as db:
                if not change_window(db, window, state=WindowState.DONE, result_id=result_id):
                    return now
                events = list(_of_reports(done, now, rules))
                if now in tests:
                    held = [tests[now].values[i] for i in np.flatnonzero(tests[now].detected)]
                    new = add_values(db, schedule.id, now.params_id, held)
                    if new and done:  # of the first window all are new
                        was = "was" if len(new) == 1 else "were"
                        text = f"{_values(new)} {was} found that no earlier window showed"
                        events.append(AlarmEvent("new_value", text, tuple(new[:MAX_SHOWN])))
                    if odd := odd_cohorts(tests[now].cohort_z).tolist():
                        text = f"{len(odd)} cohorts do not follow the model, such as "
                        text += ", ".join(map(str, odd[:MAX_SHOWN]))
                        events.append(AlarmEvent("cohort", f"{text}: their counts may be forged"))
                    before = tests.get(done[-1]) if done else None
                    for bound in sorted({one.change for one in rules if one.change}):
                        if before and (moved := changed_values(before, tests[now], bound, alpha)):
                            text = f"{_values(moved)} changed by more than {100 * bound:g} points"
                            text += " since the window before"
                            moved = moved[:MAX_SHOWN]
                            events.append(AlarmEvent("change", text, tuple(moved), bound))
                self._store(db, schedule, alarms, events, now)
        except ConflictError:  # a later tick ends it
            return now
        return now

    def store_failed(self, db: Session, schedule: ScheduleRow, window: WindowRow, why: str) -> None:
        """Store that a window was given up."""
        event = AlarmEvent("failed", f"the window could not be decoded: its job {why}")
        self._store(db, schedule, load_alarms(db, [schedule.id]), [event], window)

    def check_refusals(self, collector: RemoteCollector) -> None:
        """Ask how many reports of this day the collector refused, where an alarm wants to know,
        and store that they are many. Raises RemoteError."""
        by_id = {one.id: one for one in self.schedules.every_enabled()}
        with self.database.reading() as db:
            alarms = [(one, Rules.model_validate_json(one.rules).refused)
                      for one in load_alarms(db, list(by_id))]  # fmt: skip
        if not any(bound for _, bound in alarms):
            return
        accepted, refused = collector.counters()
        day = self.clock().date().isoformat()
        stored = select(readings.c.accepted, readings.c.refused).where(readings.c.day == day)
        first = {"accepted": accepted, "refused": refused}
        try:
            with self.database.writing() as db:
                insert_once(db, readings, {"day": day}, **first)
                base = tuple(db.execute(stored).one())
        except ConflictError:
            return
        if accepted < base[0] or refused < base[1]:  # the collector started again
            base = (0.0, 0.0)
        lost, total = refused - base[1], accepted - base[0] + refused - base[1]
        if total < FEW_REPORTS:
            return
        text = f"of {total:,.0f} reports on {day}, {lost:,.0f} were refused by the collector"
        for alarm, bound in alarms:
            if bound is None or lost <= bound * total:
                continue
            with suppress(ConflictError), self.database.writing() as db:
                event = AlarmEvent("refused", text)
                self._store(db, by_id[alarm.schedule_id], [alarm], [event], None, day)

    def _store(
        self,
        db: Session,
        schedule: ScheduleRow,
        alarms: list[AlarmRow],
        events: list[AlarmEvent],
        window: WindowRow | None,
        day: str = "",
    ) -> None:
        """Store the messages of alarms that want them, and have none of this cause already."""
        at = self.now()
        place = day if window is None else f"{window.params_id}:{window.first_day}"
        for alarm in alarms:
            rules = Rules.model_validate_json(alarm.rules).model_dump()
            for event in events:
                wanted = rules[event.rule]
                if not wanted or event.bound not in (None, wanted):
                    continue
                cause = f"{event.rule.replace('_', '-')}:{place}"
                known = select(1).where(EventRow.alarm_id == alarm.id, EventRow.cause == cause)
                if db.execute(known).first() is not None:
                    continue
                event_id = self.new_id()
                body: dict[str, Any] = {
                    "version": 1,
                    "event": event_id,
                    "rule": event.rule,
                    "cause": cause,
                    "text": event.text,
                    "alarm": alarm.name,
                    "schedule": shown(schedule, "id name metric"),
                }
                if window is not None:
                    body["window"] = shown(window, "first_day last_day params_id result_id")
                if alarm.show_values:
                    body["values"] = list(event.values)
                row = EventRow(
                    id=event_id,
                    alarm_id=alarm.id,
                    cause=cause,
                    body=canonical(body),
                    state=EventState.WAITING,
                    due=at,
                    created=at,
                )
                save(db, row)


def load_tests(db: Session, windows: list[WindowRow]) -> dict[WindowRow, WindowTests]:
    """Load the tests of the windows whose results exist."""
    tests = {}
    for one in windows:
        if one.state == WindowState.DONE and one.result_id is not None:
            files = RESULT_FILES.all(db, one.result_id, (_CANDIDATES, RESULTS))
            if len(files) < 2:
                continue
            columns = ["value", *_NUMBERS, "detected", "same_bits_as"]
            table = parquet.read_table(io.BytesIO(files[_CANDIDATES]), columns=columns)
            table = table.filter(table["same_bits_as"].is_null())
            scores = json.loads(files[RESULTS])["diagnostics"]["cohort_z"]
            tests[one] = WindowTests(
                values=tuple(table["value"].to_pylist()),
                detected=np.asarray(table["detected"].to_numpy(zero_copy_only=False), dtype=bool),
                cohort_z=np.array([np.nan if z is None else z for z in scores]),
                **{name: np.asarray(table[name].to_numpy(), np.float64) for name in _NUMBERS},
            )
    return tests


def _of_reports(
    done: list[WindowRow], window: WindowRow, rules: list[Rules]
) -> Iterator[AlarmEvent]:
    usual = [one.num_reports for one in done[-USUAL_WINDOWS:]]
    expected = float(np.median(usual)) if usual else 0.0
    for share in sorted({one.fewer_reports for one in rules if one.fewer_reports}):
        if window.num_reports < share * expected:
            text = f"{window.num_reports:,} reports, where {expected:,.0f} are usual"
            yield AlarmEvent("fewer_reports", text, bound=share)


def changed_values(
    before: WindowTests, after: WindowTests, bound: float, alpha: float
) -> list[str]:
    """Find the values whose share moved by more than a bound, at a family-wise level over the
    values.

    Tested are those that one of the windows detected, each against a change of at most `bound`,
    with Bonferroni's correction. The errors of the windows are taken as independent; devices that
    repeat their permanent responses make their difference smaller, not larger.
    """
    places = {value: i for i, value in enumerate(before.values)}
    pairs = [(places[value], i) for i, value in enumerate(after.values) if value in places]
    pairs = [(i, j) for i, j in pairs if before.detected[i] or after.detected[j]]
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    difference, error = independent(
        (before.estimate[first], before.std_error[first]),
        (after.estimate[second], after.std_error[second]),
    )
    detected = corrected(more_than(bound, difference, error), "bonferroni", alpha).detected
    return [after.values[j] for j in second[detected]]


def _values(found: list[str]) -> str:
    return "1 value" if len(found) == 1 else f"{len(found)} values"
