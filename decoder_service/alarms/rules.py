"""Alarms on schedules: their rules, and their messages (events), sent through Apprise.

Messages are delivered at least once: an event is due again until its delivery is stored. Its id is
the same in each attempt."""

import json
import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any
from urllib.parse import quote, unquote

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from pydantic import Field, StringConstraints
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from decoder_service.jobs.specs import Name, StrictModel
from decoder_service.people.access import AuditedOperations
from decoder_service.people.permissions import Act, Person, require
from decoder_service.schedules.rules import Schedules
from decoder_service.shell.database import changed, save, shown
from decoder_service.shell.errors import QuotaError, UnavailableError
from decoder_service.shell.models import AlarmRow, EventRow, EventState
from rappor_core.text import visible
from rappor_server.errors import NotFoundError, RequestError, SettingsError

_SECONDS = 60.0
_CAUSE = "Socket Exception: "  # the prefix of an exception's text in Apprise's log
_MIN_SECRET = 4  # the minimum length of a part of a URL that is hidden in messages


def check_url(name: str, url: str) -> None:
    """Raise SettingsError, without quoting secrets, if Apprise cannot use a URL."""
    if not _target(url):
        raise SettingsError(
            f"setting alarm_urls: the URL of {name!r} is not one of Apprise; "
            "see https://github.com/caronc/apprise/wiki"
        )


def send(url: str, body: str, link: str) -> None:
    """Send a message once.

    Args:
        url: The Apprise URL.
        body: The event as JSON.
        link: The address of the result, or "".

    Raises:
        UnavailableError: The message was not accepted. The error gives the reason, without secrets.
    """
    title, text = compose(body, link)
    result = _target(url).notify(
        text,
        title,
        notify_type=NotifyType.WARNING,
        body_format=NotifyFormat.TEXT,
        timeout=_SECONDS,
        log_level=logging.DEBUG,  # the level at which Apprise logs the cause of a failure
    )
    if result:
        return
    messages = [
        entry.message.removeprefix(_CAUSE)
        for entry in result.logs()
        if entry.level in ("WARNING", "ERROR") or entry.message.startswith(_CAUSE)
    ]
    reason = " ".join(dict.fromkeys(messages)) or f"Apprise reports {result.status.value}"
    raise UnavailableError(visible(without_secrets(reason, url)))


def compose(body: str, link: str) -> tuple[str, str]:
    """Return the title and the text of an event's message; arguments as in `send`."""
    event = json.loads(body)
    schedule = event["schedule"]
    title = f"[rappor] {visible(schedule['name'])}: {event['rule'].replace('_', ' ')}"
    lines = [visible(event["text"]) + ".", "", f"Metric: {visible(schedule['metric'])}"]
    lines.append(f"Window: {event['window']['first_day']} to {event['window']['last_day']}")
    lines += [f"Value: {visible(value)}" for value in event.get("values", [])]
    lines += [f"Result: {link}"] if link else []
    return title, "\n".join([*lines, "", f"Event {event['event']}"])


def without_secrets(text: str, url: str) -> str:
    """Return a text in which all parts of a URL after its scheme are masked: any may be a token."""
    parts = {unquote(part) for part in re.split(r"[\s/:@?&=,]+", url.partition("://")[2])}
    forms = {form for part in parts for form in (part, quote(part), quote(part, safe=""))}
    longest = sorted((form for form in forms if len(form) >= _MIN_SECRET), key=len, reverse=True)
    hidden = "|".join(map(re.escape, longest)) or "$^"
    return re.sub(hidden, "****", text, flags=re.IGNORECASE)


def _target(url: str) -> Apprise:
    """Return an Apprise object with one URL (or none if unusable), whose own log is silent."""
    logger = logging.getLogger("apprise")
    logger.propagate = False  # its log may contain the URL's secrets
    logger.setLevel(logging.DEBUG)  # so that the result contains the log
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    target = Apprise(asset=AppriseAsset(app_id="rappor-decoder", secure_logging=True))
    target.add(url)
    return target


MAX_ALARMS = 20  # per schedule
MAX_SECONDS = 60.0  # per tick, after which no new message is sent
HOLD_SECONDS = 120.0  # longer than any attempt takes
PAUSES = (60, 300, 1800, 7200, 21_600, 43_200, 86_400)  # seconds before the next attempt
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Rules(StrictModel):
    """The causes for which an alarm sends a message; None and False disable a cause."""

    new_value: bool = False  # A value that no earlier window contained
    change: Share | None = None  # A share that changed by more than this since the previous window
    fewer_reports: Share | None = None  # Less than this part of the earlier windows' median
    cohort: bool = False  # A cohort that does not follow the model
    failed: bool = True  # A window that could not be decoded


class NewAlarm(StrictModel):
    """The request for an alarm on a schedule."""

    name: Name
    # The target of its messages, set up by an operator
    target: Annotated[str, StringConstraints(max_length=1000)]
    rules: Rules = Rules()
    show_values: bool = False  # Whether sensitive values may leave the service


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms(AuditedOperations):
    """Operations on the alarms of a person's schedules, each of which checks the person's role."""

    schedules: Schedules
    urls: Mapping[str, str]  # Apprise URLs, by target name, as set up by an operator

    def create(self, person: Person, schedule_id: str, spec: NewAlarm) -> AlarmRow:
        """Create an alarm on a schedule of the person.

        Raises RoleError, NotFoundError, QuotaError, or RequestError if the target is unknown."""
        require(person, Act.ANALYZE)
        if spec.target not in self.urls:
            names = ", ".join(sorted(self.urls)) or "none yet"
            raise RequestError(
                f"target {spec.target[:60]!a} is not set up here ({names}); an operator sets "
                "alarm_urls"
            )
        row = AlarmRow(
            id=self.new_id(),
            schedule_id=schedule_id,
            name=spec.name,
            target=spec.target,
            rules=spec.rules.model_dump_json(),
            show_values=spec.show_values,
            created=self.now(),
        )
        with self.database.writing() as db:
            self.schedules.one(db, person, schedule_id)
            if len(load_alarms(db, [schedule_id])) >= MAX_ALARMS:
                raise QuotaError(f"the schedule has {MAX_ALARMS} alarms, the maximum")
            save(db, row)
            self.access.note(db, person, "create-alarm", alarm=row.id, target=row.target)
        return row

    def all(self, person: Person, schedule_id: str) -> list[AlarmRow]:
        """Return the alarms of a schedule. Raises RoleError, NotFoundError."""
        self.schedules.get(person, schedule_id)
        with self.database.reading() as db:
            return load_alarms(db, [schedule_id])

    def events(self, person: Person, schedule_id: str, limit: int = 100) -> list[EventRow]:
        """Return a schedule's alarm messages, newest first. Raises RoleError, NotFoundError."""
        self.schedules.get(person, schedule_id)
        query = select(EventRow).where(EventRow.alarm.has(AlarmRow.schedule_id == schedule_id))
        with self.database.reading() as db:
            newest = query.order_by(EventRow.created.desc(), EventRow.id)
            return list(db.scalars(newest.limit(limit)))

    def delete(self, person: Person, schedule_id: str, alarm_id: str) -> None:
        """Delete an alarm with its events. Raises RoleError, NotFoundError."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            self.schedules.one(db, person, schedule_id)
            row = db.get(AlarmRow, alarm_id)
            if row is None or row.schedule_id != schedule_id:
                raise NotFoundError(
                    f"there is no alarm {alarm_id[:40]!a} of this schedule; its page lists all"
                )
            db.execute(delete(EventRow).where(EventRow.alarm_id == alarm_id))
            db.execute(delete(AlarmRow).where(AlarmRow.id == alarm_id))
            self.access.note(db, person, "delete-alarm", alarm=alarm_id)

    def send_due(self) -> tuple[int, int]:
        """Send due messages; return how many were sent, and how many attempts failed.

        A hanging target does not block the schedules; other messages wait for the next tick. Raises
        StorageError if the database fails."""
        tries = []
        end = monotonic() + MAX_SECONDS
        while monotonic() < end:
            at = self.now()
            with self.database.writing() as db:
                event = take_event(db, at, at + HOLD_SECONDS)
            if event is None:
                break
            tries.append(self._try(event))
        return sum(tries), len(tries) - sum(tries)

    def _try(self, event: EventRow) -> bool:
        """Send a message and store the outcome; return whether it was sent."""
        values: dict[str, Any]
        target, pages = event.alarm.target, (self.settings.public_url or "").rstrip("/")
        result = json.loads(event.body)["window"]["result_id"]
        try:
            if target not in self.urls:
                raise UnavailableError(
                    f"target {target[:60]!a} is not set up; an operator sets alarm_urls"
                )
            link = f"{pages}/results/{result}" if result and pages else ""
            send(self.urls[target], event.body, link)
        except UnavailableError as error:
            values = {"reason": str(error)[:500], "state": EventState.FAILED, "due": self.now()}
            if event.tries <= len(PAUSES):  # including this attempt
                values |= {"state": EventState.WAITING}
                values["due"] += PAUSES[event.tries - 1]
        else:
            values = {"reason": "", "state": EventState.SENT, "sent": self.now()}
        same = (EventRow.id == event.id, EventRow.state == EventState.WAITING)
        with self.database.writing() as db:
            db.execute(update(EventRow).where(*same).values(values))
        return "sent" in values


def load_alarms(db: Session, schedule_ids: Collection[str]) -> list[AlarmRow]:
    """Return the alarms of schedules, by name."""
    query = select(AlarmRow).where(AlarmRow.schedule_id.in_(schedule_ids))
    return list(db.scalars(query.order_by(AlarmRow.name, AlarmRow.id)))


def take_event(db: Session, at: float, until: float) -> EventRow | None:
    """Claim the most overdue event until the time `until`; None if no event is due.

    The event is due again if its outcome is not stored by then."""
    due = select(EventRow).where(EventRow.state == EventState.WAITING, EventRow.due <= at)
    first = due.order_by(EventRow.due, EventRow.id).limit(1)
    row = db.scalar(first.with_for_update(of=EventRow, skip_locked=True))
    if row is None:
        return None
    same = (EventRow.id == row.id, EventRow.tries == row.tries)
    claim = update(EventRow).where(*same).values(tries=row.tries + 1, due=until)
    return row if changed(db, claim) == 1 else None


def shown_event(row: EventRow) -> dict[str, Any]:
    """Return, for JSON, the properties of an event that the owner of its alarm sees."""
    body: dict[str, Any] = json.loads(row.body)
    return shown(row, "id state tries reason") | body
