"""The protocol of a device's store, which `SqliteState` and `MemoryState` implement.

`SqliteState` keeps it in a file for years; `MemoryState` for as long as a simulation or a test
runs. The ledger and the recorder know only this protocol. It is for readers and type checkers: no
device imports it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from client_sdk.storage.interface import Draft, Entry, Identity, Limits, Line, Source, Stored


class State(Protocol):
    """The store that ledger and recorder work on."""

    def identity(self) -> Identity:
        """Read the present identity, which another process may have changed."""

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction that excludes other threads and processes; an exception undoes it."""

    def source(self, source: Source) -> int:
        """The number by which a source is known, given to it at the first call."""

    def add_report(self, draft: Draft, limits: Limits) -> Stored:
        """Queue one report, and count it against its limits, in one commit; or nothing at all.

        `full` when a limit is reached; `not_memoised` when the ledger does not hold the digest.
        """

    def last_period(self, metric: str, latest: int) -> int | None:
        """The last period up to `latest` in which a report of `metric` was counted, or None."""

    def count_by(self, name: str, unit: str, present: int | None = None) -> None:
        """Count the reports of `name` by periods of this unit; counts in another unit are
        carried over.

        present: number of the period that it is now, where it is known: far from it, periods that
        have reports may be marked as used up instead of being counted on.
        """

    def line(self, name: str) -> Line | None:
        """A line of the ledger, or None."""

    def lines(self) -> list[Line]:
        """All lines of the ledger, by name."""

    def put_line(self, line: Line) -> None:
        """Add or replace a line."""

    def entries(self, line: str) -> list[Entry]:
        """The memoised responses of a line, with the reports made from each, queued ones too."""

    def add_entry(self, entry: Entry) -> None:
        """Memoise one more response."""

    def get(self, name: str) -> Any:
        """Read a number or text of the device as a whole, or None; it outlives the secret."""

    def put(self, name: str, value: object) -> None:
        """Set a number or text of the device as a whole, or (None) remove it."""

    def note(self, name: str) -> str | None:
        """The text kept under a name, or None. Private; wiped with the values."""

    def put_note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one."""

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter that `inspect` shows."""
