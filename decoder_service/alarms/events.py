"""Detection of causes for alarm messages when a window is complete.

Each cause is stored once: its event is inserted in the transaction that ends its window, under a
key that is unique per alarm."""

import io
import json
from collections.abc import Iterator, Sequence
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
from decoder_service.results.rules import RESULT_FILES
from decoder_service.schedules.rules import add_values
from decoder_service.schedules.windows import change_window, spec_of_schedule
from decoder_service.shell.database import Operations, save, shown
from decoder_service.shell.models import (
    AlarmRow,
    EventRow,
    EventState,
    ScheduleRow,
    WindowRow,
    WindowState,
)
from rappor_server.errors import ConflictError

MAX_SHOWN = 20  # the maximum number of values in one event
_CANDIDATES = "candidates.parquet"
_NUMBERS = ("estimate", "std_error")
USUAL_WINDOWS = 8  # the median of their report counts is the expected count


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """A cause for an alarm's message: the rule that it meets, and the message's text."""

    rule: str
    text: str
    values: Sequence[str] = ()  # Untrusted text, shown if the alarm allows it


@dataclass(frozen=True)
class WindowTests:
    """The test results of one window: arrays (M,) over distinguishable values; z per cohort."""

    values: tuple[str, ...]
    estimate: Floats
    std_error: Floats
    detected: Flags
    cohort_z: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEvents(Operations):
    """Operations that complete schedules' windows and store their alarms' messages."""

    def complete(
        self, schedule: ScheduleRow, earlier: list[WindowRow], window: WindowRow, result_id: str
    ) -> WindowRow:
        """End a window with its result, unless another process was faster, and store its events."""
        now = replace(window, state=WindowState.DONE, result_id=result_id)
        alpha = spec_of_schedule(schedule).options.alpha
        done = [row for row in earlier if row.state == WindowState.DONE]
        with self.database.reading() as db:
            alarms = load_alarms(db, [schedule.id])
            tests = load_tests(db, [*done[-1:], now])
        mine, before = tests.get(now), tests.get(done[-1]) if done else None
        with suppress(ConflictError), self.database.writing() as db:  # a later tick may retry
            if change_window(db, window, state=WindowState.DONE, result_id=result_id):
                new: list[str] = []
                if mine is not None:
                    detected = [mine.values[i] for i in np.flatnonzero(mine.detected)]
                    new = add_values(db, schedule.id, now.params_id, detected)
                for alarm in alarms:
                    rules = Rules.model_validate_json(alarm.rules)
                    events = [*_of_reports(rules, done, now)]
                    if mine is not None:
                        # in the first window, all values would be new
                        events += _of_values(rules, before, mine, new if done else [], alpha)
                    for event in events:
                        self._store(db, schedule, alarm, event, now)
        return now

    def store_failed(self, db: Session, schedule: ScheduleRow, window: WindowRow, why: str) -> None:
        """Store events for a window that was given up."""
        event = AlarmEvent("failed", f"the window could not be decoded: its job {why}")
        for alarm in load_alarms(db, [schedule.id]):
            if Rules.model_validate_json(alarm.rules).failed:
                self._store(db, schedule, alarm, event, window)

    def _store(
        self,
        db: Session,
        schedule: ScheduleRow,
        alarm: AlarmRow,
        event: AlarmEvent,
        window: WindowRow,
    ) -> None:
        """Store an alarm's message, unless it already has one for this cause."""
        at, event_id = self.now(), self.new_id()
        rule = event.rule.replace("_", "-")
        cause = f"{rule}:{window.params_id}:{window.first_day}"
        stored = select(1).where(EventRow.alarm_id == alarm.id, EventRow.cause == cause)
        if db.execute(stored).first() is not None:
            return
        body: dict[str, Any] = {
            "version": 1,
            "event": event_id,
            "rule": event.rule,
            "cause": cause,
            "text": event.text,
            "alarm": alarm.name,
            "schedule": shown(schedule, "id name metric"),
            "window": shown(window, "first_day last_day params_id result_id"),
        }
        if alarm.show_values:
            body["values"] = list(event.values[:MAX_SHOWN])
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
    for window in windows:
        if window.state == WindowState.DONE and window.result_id is not None:
            files = RESULT_FILES.all(db, window.result_id, (_CANDIDATES, RESULTS))
            if len(files) < 2:
                continue
            columns = ["value", *_NUMBERS, "detected", "same_bits_as"]
            table = parquet.read_table(io.BytesIO(files[_CANDIDATES]), columns=columns)
            table = table.filter(table["same_bits_as"].is_null())
            scores = json.loads(files[RESULTS])["diagnostics"]["cohort_z"]
            tests[window] = WindowTests(
                values=tuple(table["value"].to_pylist()),
                detected=np.asarray(table["detected"].to_numpy(zero_copy_only=False), dtype=bool),
                cohort_z=np.array([np.nan if z is None else z for z in scores]),
                **{name: np.asarray(table[name].to_numpy(), np.float64) for name in _NUMBERS},
            )
    return tests


def _of_reports(rules: Rules, done: list[WindowRow], window: WindowRow) -> Iterator[AlarmEvent]:
    usual = [row.num_reports for row in done[-USUAL_WINDOWS:]]
    expected = float(np.median(usual)) if usual else 0.0
    if window.num_reports < (rules.fewer_reports or 0.0) * expected:
        text = f"{window.num_reports:,} reports; {expected:,.0f} are usual"
        yield AlarmEvent("fewer_reports", text)


def _of_values(
    rules: Rules, before: WindowTests | None, after: WindowTests, new: list[str], alpha: float
) -> Iterator[AlarmEvent]:
    """Yield the events of a window's values; `new` are values that no earlier window contained."""
    if rules.new_value and new:
        was = "was" if len(new) == 1 else "were"
        text = f"{_values(new)} {was} detected for the first time"
        yield AlarmEvent("new_value", text, new)
    if rules.cohort and (odd := odd_cohorts(after.cohort_z).tolist()):
        some = ", ".join(map(str, odd[:MAX_SHOWN]))
        text = f"{len(odd)} cohorts do not fit the model, such as {some}"
        yield AlarmEvent("cohort", f"{text}: their counts may be fabricated")
    if rules.change and before is not None:
        moved = changed_values(before, after, rules.change, alpha)
        if moved:
            text = f"{_values(moved)} changed by more than {100 * rules.change:g} points"
            yield AlarmEvent("change", f"{text} since the previous window", moved)


def changed_values(
    before: WindowTests, after: WindowTests, bound: float, alpha: float
) -> list[str]:
    """Return the values whose share changed by more than `bound`, at family-wise level `alpha`.

    Each value that was detected in either window is tested, with Bonferroni's correction. The
    errors of the windows are treated as independent; if devices repeat permanent responses, the
    error of the difference is smaller, not larger."""
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


def _values(values: list[str]) -> str:
    return "1 value" if len(values) == 1 else f"{len(values)} values"
