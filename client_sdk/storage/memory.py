"""A device's state in memory: for simulations, and for tests of an app. Nothing is kept.

Fleets of many devices in one process take this instead of a file each; see `docs/client.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from client_sdk.storage.interface import Draft, Entry, Identity, Limits, Line, Source, Stored
from client_sdk.storage.periods import carried
from rappor_core.calendar import date_of
from rappor_core.wire.report import Report

LIFE = -1  # the period that never ends, for a limit on reports for life


class MemoryState:
    """The state of one device in memory, for one thread. secret: 32 bytes, private."""

    __slots__ = (
        "_counters",
        "_entries",
        "_identity",
        "_lines",
        "_meta",
        "_notes",
        "_periods",
        "_queue",
        "_sources",
    )

    def __init__(self, secret: bytes) -> None:
        """Start with an empty ledger and an empty queue."""
        self._identity = Identity(secret, 1)
        self._lines: dict[str, Line] = {}
        self._meta: dict[str, object] = {}
        self._entries: dict[bytes, Entry] = {}
        self._periods: dict[tuple[str, int], int] = {}
        self._sources: dict[Source, int] = {}
        self._queue: list[Draft] = []
        self._counters: Counter[str] = Counter()
        self._notes: dict[str, str] = {}

    def take_reports(self) -> list[Report]:
        """Empty the queue and return its reports, in the order of recording."""
        sources = list(self._sources)
        queue, self._queue = self._queue, []
        return [Report(*sources[d.source], date_of(d.day), d.bits) for d in queue]

    def identity(self) -> Identity:
        """Read the identity: the secret and the generation."""
        return self._identity

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that excludes other threads; an exception undoes it."""
        before = dict(self._lines), dict(self._entries), self._identity
        try:
            yield
        except BaseException:
            self._lines, self._entries, self._identity = before
            raise

    def source(self, source: Source) -> int:
        """The number by which a source is known, given to it at the first call."""
        return self._sources.setdefault(source, len(self._sources))

    def add_report(self, draft: Draft, limits: Limits) -> Stored:
        """Queue one report, and count it against its limits, in one commit; or nothing at all."""
        bounds = {(limits.name, limits.period): limits.most}
        if limits.most_ever is not None:
            bounds[limits.line, LIFE] = limits.most_ever
        counts = {key: self._periods.get(key, 0) for key in bounds}
        first, last = limits.alone_in or (0, -1)
        near = any(name == limits.name and first <= p <= last for name, p in self._periods)
        if near or any(counts[key] >= most for key, most in bounds.items()):
            return "full"
        entry = self._entries.get(draft.digest)
        if entry is None:
            return "not_memoised"
        for key, count in counts.items():
            self._periods[key] = count + 1
        self._entries[draft.digest] = entry._replace(reports=entry.reports + 1)
        self._queue.append(draft)
        return "queued"

    def last_period(self, metric: str, latest: int) -> int | None:
        """The last period up to `latest` in which a report of `metric` was counted, or None."""
        periods = (p for name, p in self._periods if name == metric and LIFE < p <= latest)
        return max(periods, default=None)

    def count_by(self, name: str, unit: str, present: int | None = None) -> None:  # noqa: ARG002
        """Count the reports of `name` by periods of this unit; all periods stay counted."""
        key = f"unit:{name}"
        known = self._meta.setdefault(key, unit)
        if known == unit:
            return
        counts = {p: n for (of, p), n in self._periods.items() if of == name and p != LIFE}
        for period in counts:
            del self._periods[name, period]
        for period, number in carried(counts, str(known), unit).items():
            self._periods[name, period] = number
        self._meta[key] = unit

    def get(self, name: str) -> Any:
        """Read a number or text of the device as a whole, or None."""
        return self._meta.get(name)

    def put(self, name: str, value: object) -> None:
        """Set a number or text of the device as a whole, or (None) remove it."""
        self._meta[name] = value

    def line(self, name: str) -> Line | None:
        """A line of the ledger, or None."""
        return self._lines.get(name)

    def lines(self) -> list[Line]:
        """All lines of the ledger, by name."""
        return [self._lines[name] for name in sorted(self._lines)]

    def put_line(self, line: Line) -> None:
        """Add or replace a line of the ledger."""
        self._lines[line.name] = line

    def entries(self, line: str) -> list[Entry]:
        """The memoised responses of a line, with the reports made from each."""
        return [entry for entry in self._entries.values() if entry.line == line]

    def add_entry(self, entry: Entry) -> None:
        """Memoise one more response."""
        self._entries[entry.digest] = entry

    def note(self, name: str) -> str | None:
        """The text kept under a name, or None. Private."""
        return self._notes.get(name)

    def put_note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one."""
        self._notes[name] = text

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter that `inspect` shows."""
        self._counters[name] += number

    def counters(self) -> dict[str, int]:
        """Counters of events, by name."""
        return dict(self._counters)
