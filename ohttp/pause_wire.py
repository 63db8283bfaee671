"""The list of paused metrics as it travels: path, type, sizes and text.

Without a library: a collector, which has no key of a list, looks at the form of what it serves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from rappor_core.errors import ParameterError, RapporError, shown

LIST_PATH = "/v1/paused"
LIST_TYPE = "application/octet-stream"
LIST_VERSION = 1
SIGNATURE_BYTES = 64
MOST_BYTES = 16_384  # of a list, its signature among them
MOST_DAYS = 90  # for which a list may hold
MOST_NUMBER = 2**53 - 1
MOST_CHARS = 200  # of a name


class PauseListError(RapporError):
    """Bytes that are no list of this app by the holder of its key, or one that does not hold."""


@dataclass(frozen=True, slots=True)
class PauseList:
    """Metrics that are not to be recorded or sent. Public.

    Attributes:
        app: of which app; another app's list with the same key does not hold.
        number: grows with each list, 1 to 2^53 - 1; a device takes no smaller one again.
        expires: the last day, UTC, on which the list holds.
        paused: names of metrics, as declared, and the last day, UTC, of each pause.
    """

    app: str
    number: int
    expires: date
    paused: Mapping[str, date]

    def __post_init__(self) -> None:
        """Check the fields. Raises ParameterError with the bad value."""
        if not _is_name(self.app):
            raise ParameterError(f"app = {shown(self.app)} is not 1 to {MOST_CHARS} characters")
        if type(self.number) is not int or not 1 <= self.number <= MOST_NUMBER:
            raise ParameterError(f"number = {shown(self.number)} is not from 1 to 2^53 - 1")
        for name in self.paused:
            if not _is_name(name):
                raise ParameterError(f"paused: {shown(name)} is not 1 to {MOST_CHARS} characters")

    def until(self, metric: str, today: date) -> date | None:
        """The last day of a metric's pause; None where it is not paused today.

        A list that ends more than `MOST_DAYS` from now does not hold: the clock was set back.
        """
        until = self.paused.get(metric) or self.paused.get(metric.partition("/")[0])
        if until is None or self.expires > today + timedelta(days=MOST_DAYS):
            return None
        last = min(until, self.expires)
        return last if today <= last else None

    def text(self) -> bytes:
        """The bytes that are signed, but for their context."""
        fields = {
            "version": LIST_VERSION,
            "app": self.app,
            "number": self.number,
            "expires": self.expires.isoformat(),
            "paused": {name: day.isoformat() for name, day in sorted(self.paused.items())},
        }
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def unverified(data: bytes) -> PauseList:
    """The list in bytes, whoever signed them. Raises PauseListError where they are no list."""
    if len(data) > MOST_BYTES:
        raise PauseListError(f"{len(data):,} bytes; a list has up to {MOST_BYTES:,}")
    try:
        return _from_json(json.loads(data[SIGNATURE_BYTES:]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, RapporError):
        raise PauseListError("not a list of this version") from None


def _from_json(fields: Any) -> PauseList:
    if set(fields) != {"version", "app", "number", "expires", "paused"}:
        raise ValueError("other keys")
    if type(fields["version"]) is not int or fields["version"] != LIST_VERSION:
        raise ValueError("another version")
    paused = {name: _day(text) for name, text in fields["paused"].items()}
    return PauseList(fields["app"], fields["number"], _day(fields["expires"]), paused)


def _day(text: str) -> date:
    day = date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError("another form of a day")
    return day


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MOST_CHARS
