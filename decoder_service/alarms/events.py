"""Find the causes for which alarms send a message when a window is complete; each cause is
stored once.

The event of a cause is inserted in the transaction that ends its window, under a key that is
unique for the alarm.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StringConstraints
from sqlalchemy.orm import Session

from decoder.comparison.differences import corrected, independent, more_than
from decoder.results.warnings import odd_cohorts
from decoder_service.alarms.rows import EventState, load_alarms, save_event
from decoder_service.jobs.specs import Name, StrictModel, canonical
from decoder_service.schedules.rows import WindowState, add_values, end_window, first_reading
from decoder_service.schedules.rules import Schedules, spec_of_schedule
from decoder_service.schedules.series import Family, WindowTests, decided, load_tests
from decoder_service.shell.errors import ConflictError
from decoder_service.shell.models import AlarmRow, EventRow, ScheduleRow, WindowRow
from decoder_service.shell.operations import Operations

MOST_SHOWN = 20  # values of one event
USUAL_WINDOWS = 8  # whose median is what is expected
FEW_REPORTS = 100.0  # of a day, below which its refusals tell nothing
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Rules(StrictModel):
    """What an alarm tells. None and False: nothing of it.

    new_value: a value that no earlier window showed.  change: a share that moved by more than
    this since the window before.  fewer_reports: less than this share of the median of the windows
    before.  cohort: a cohort that does not follow the model.  refused: of a day's reports more
    than this share was refused by the collector.  failed: a window that could not be decoded.
    """

    new_value: bool = False
    change: Share | None = None
    fewer_reports: Share | None = None
    cohort: bool = False
    refused: Share | None = None
    failed: bool = True


class NewAlarm(StrictModel):
    """The request for an alarm on a schedule.

    target: of its messages, one that an operator set up.  show_values: whether values, which are
    sensitive, leave the service.
    """

    name: Name
    target: Annotated[str, StringConstraints(max_length=1000)]
    rules: Rules = Rules()
    show_values: bool = False


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """A cause for a message. values: text of strangers, shown where an alarm says so.

    bound: of the alarms that it is for; None for a rule without one.
    """

    rule: str
    cause: str
    text: str
    values: tuple[str, ...] = ()
    bound: float | None = None


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
        options, family = spec_of_schedule(schedule).options, Family(schedule.family)
        done = [one for one in earlier if one.state == WindowState.DONE]
        wanted = done if family is Family.SERIES else done[-1:]
        with self.database.reading() as db:
            alarms = load_alarms(db, [schedule.id])
            read = load_tests(db, [*wanted, now])
        tests = dict(zip(read, decided(list(read.values()), family, options.alpha), strict=True))
        rules = [Rules.model_validate_json(alarm.rules) for alarm in alarms]
        try:
            with self.database.writing() as db:
                if not end_window(db, window, WindowState.DONE, result_id):
                    return now
                found = list(_of_reports(done, now, rules))
                if now in tests:
                    found += self._of_values(db, schedule, now, tests[now], bool(done))
                    found += _of_cohorts(now, tests[now])
                    before = tests.get(done[-1]) if done else None
                    if before is not None:
                        found += _of_changes(now, before, tests[now], options.alpha, rules)
                self._store(db, schedule, alarms, found, now)
        except ConflictError:  # a later tick ends it
            return now
        return now

    def store_failed(
        self, db: Session, schedule: ScheduleRow, window: WindowRow, state: WindowState
    ) -> None:
        """Store that a window was given up."""
        text = f"the window could not be decoded: its job {state}"
        finding = AlarmEvent("failed", f"failed:{_name(window)}", text)
        alarms = load_alarms(db, [schedule.id])
        self._store(db, schedule, alarms, [finding], window)

    def wants_refusals(self) -> bool:
        """Whether any alarm has the rule `refused`."""
        return any(rules.refused is not None for _, _, rules in self._refusals())

    def store_refusals(self, accepted: float, refused: float) -> None:
        """Store that many reports of this day were refused. accepted, refused: counted so far."""
        day = self.clock().date().isoformat()
        try:
            with self.database.writing() as db:
                base = first_reading(db, day, accepted, refused)
        except ConflictError:
            return
        if accepted < base[0] or refused < base[1]:  # the collector started again
            base = (0.0, 0.0)
        lost, total = refused - base[1], accepted - base[0] + refused - base[1]
        if total < FEW_REPORTS:
            return
        for schedule, alarm, rules in self._refusals():
            if rules.refused is None or lost <= rules.refused * total:
                continue
            text = f"of {total:,.0f} reports on {day}, {lost:,.0f} were refused by the collector"
            finding = AlarmEvent("refused", f"refused:{day}", text)
            try:
                with self.database.writing() as db:
                    self._store(db, schedule, [alarm], [finding], None)
            except ConflictError:
                continue

    def _refusals(self) -> list[tuple[ScheduleRow, AlarmRow, Rules]]:
        found = []
        by_id = {one.id: one for one in self.schedules.every_enabled()}
        with self.database.reading() as db:
            for alarm in load_alarms(db, list(by_id)):
                rules = Rules.model_validate_json(alarm.rules)
                if rules.refused is not None:
                    found.append((by_id[alarm.schedule_id], alarm, rules))
        return found

    def _of_values(
        self,
        db: Session,
        schedule: ScheduleRow,
        window: WindowRow,
        tests: WindowTests,
        has_earlier: bool,
    ) -> list[AlarmEvent]:
        """New values; those of the first window are what is compared with."""
        held = [tests.values[i] for i in np.flatnonzero(tests.detected)]
        new = add_values(db, schedule.id, window.params_id, held)
        if not new or not has_earlier:
            return []
        was = "was" if len(new) == 1 else "were"
        text = f"{_values(new)} {was} found that no earlier window showed"
        return [
            AlarmEvent("new_value", f"new-value:{_name(window)}", text, tuple(new[:MOST_SHOWN]))
        ]

    def _store(
        self,
        db: Session,
        schedule: ScheduleRow,
        alarms: list[AlarmRow],
        found: list[AlarmEvent],
        window: WindowRow | None,
    ) -> None:
        at = self.now()
        for alarm in alarms:
            rules = Rules.model_validate_json(alarm.rules).model_dump()
            for finding in found:
                wanted = rules[finding.rule]
                if not wanted or finding.bound not in (None, wanted):
                    continue
                event_id = self.new_id()
                body = _body(event_id, schedule, alarm, finding, window)
                event = EventRow(
                    id=event_id,
                    alarm_id=alarm.id,
                    cause=finding.cause,
                    body=body,
                    state=EventState.WAITING,
                    due=at,
                    created=at,
                )
                save_event(db, event)


def _body(
    event_id: str,
    schedule: ScheduleRow,
    alarm: AlarmRow,
    finding: AlarmEvent,
    window: WindowRow | None,
) -> str:
    content: dict[str, Any] = {
        "version": 1,
        "event": event_id,
        "rule": finding.rule,
        "cause": finding.cause,
        "text": finding.text,
        "alarm": alarm.name,
        "schedule": {"id": schedule.id, "name": schedule.name, "metric": schedule.metric},
    }
    if window is not None:
        content["window"] = {
            "first_day": window.first_day,
            "last_day": window.last_day,
            "params_id": window.params_id,
            "result_id": window.result_id,
        }
    if alarm.show_values:
        content["values"] = list(finding.values)
    return canonical(content)


def _of_reports(
    done: list[WindowRow], window: WindowRow, rules: list[Rules]
) -> Iterator[AlarmEvent]:
    usual = [one.num_reports for one in done[-USUAL_WINDOWS:]]
    if not usual:
        return
    expected = float(np.median(usual))
    for share in sorted({one.fewer_reports for one in rules if one.fewer_reports}):
        if window.num_reports < share * expected:
            text = f"{window.num_reports:,} reports, where {expected:,.0f} are usual"
            cause = f"fewer-reports:{_name(window)}"
            yield AlarmEvent("fewer_reports", cause, text, bound=share)


def _of_cohorts(window: WindowRow, tests: WindowTests) -> list[AlarmEvent]:
    odd = odd_cohorts(tests.cohort_z).tolist()
    if not odd:
        return []
    shown = ", ".join(map(str, odd[:MOST_SHOWN]))
    text = (
        f"{len(odd)} cohorts do not follow the model, such as {shown}: their counts may be forged"
    )
    return [AlarmEvent("cohort", f"cohort:{_name(window)}", text)]


def _of_changes(
    window: WindowRow, before: WindowTests, after: WindowTests, alpha: float, rules: list[Rules]
) -> list[AlarmEvent]:
    found = []
    for bound in sorted({one.change for one in rules if one.change}):
        moved = changed_values(before, after, bound, alpha)
        if moved:
            points = f"{100 * bound:g} points"
            text = f"{_values(moved)} changed by more than {points} since the window before"
            cause = f"change:{_name(window)}"
            found.append(AlarmEvent("change", cause, text, tuple(moved[:MOST_SHOWN]), bound))
    return found


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


def _name(window: WindowRow) -> str:
    """Of a window, the same whatever list it was decoded with."""
    return f"{window.params_id}:{window.first_day}"


def shown_event(row: EventRow) -> dict[str, Any]:
    """The properties of an event that the owner of its alarm sees."""
    return {
        "id": row.id,
        "alarm": row.alarm_id,
        "state": row.state,
        "tries": row.tries,
        "reason": row.reason,
        **json.loads(row.body),
    }
