"""What a device must remember, as one protocol with two stores behind it.

`SqliteState` keeps it in a file for years; `MemoryState` for as long as a simulation or a test
runs. The ledger and the recorder know only this protocol. Everything in it is private, except
reports, whose bits have been through both rounds.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

LIFE = -1  # the period that never ends, for a limit on reports for life
VISITS = "visits:"  # name of a note: then the declared name of a metric of places
NUMBERS = "numbers:"  # likewise: then the name of a metric of numbers

Stored = Literal["queued", "full", "not_memoised"]


class Identity(NamedTuple):
    """The secret, and how many times what it protects has changed.

    secret: 32 bytes, or None while the person does not consent.
    generation: grows with each new secret, each memoised value and each report of a window; never
        falls.
    """

    secret: bytes | None
    generation: int

    def __repr__(self) -> str:
        """Without the secret, which must not end up in a log."""
        return f"Identity({'a secret' if self.secret else 'no secret'}, {self.generation})"


class Line(NamedTuple):
    """One line of the ledger: a metric by its base name, over parameters, slots and levels.

    agreed: what was promised when the metric was first used (`ledger.Promise` as JSON).
    past_values, past_cost, past_spent, past_reports: numbers kept from secrets that were wiped when
        consent was withdrawn: values memoised, epsilon they cost at most, epsilon really spent, and
        reports made.
    """

    name: str
    agreed: str
    past_values: int = 0
    past_cost: float = 0.0
    past_spent: float = 0.0
    past_reports: int = 0


class Entry(NamedTuple):
    """One memoised permanent response: a keyed digest, never the value.

    params: `RapporParams.to_dict` as JSON.  cost: epsilon_infinity, nats, charged once.
    reports: how many reports were made from it.
    """

    line: str
    digest: bytes
    params: str
    cost: float
    reports: int = 0


class Source(NamedTuple):
    """Where a queued report comes from: everything it has in common with others of its metric."""

    metric: str
    params_id: str
    cohort: int


class Draft(NamedTuple):
    """A report about to be queued.

    source: number from `State.source`.  digest: of the memoised response that it was made from.
    day: days since 1970-01-01, UTC.  bits: as on the wire.
    """

    source: int
    digest: bytes
    day: int
    bits: bytes


class Limits(NamedTuple):
    """How many reports there may be.

    At most `most` counted under `name` in the period of this number; at most `most_ever` (None: any
    number) counted for life under `line`; none under `name` in so many periods as `apart` before
    and after this one.
    """

    name: str
    period: int
    most: int
    line: str
    most_ever: int | None
    apart: int = 0


class State(Protocol):
    """What the ledger and the recorder ask of a store."""

    def identity(self) -> Identity:
        """The identity as stored now (another process may have changed it)."""

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[object]:
        """Exclusive over threads and processes; undone by an exception.

        durable: what is committed survives a loss of power, too, not only of the process.
        """

    def source(self, source: Source) -> int:
        """The number of a source, remembered from the first call on."""

    def add_report(self, draft: Draft, limits: Limits) -> Stored:
        """Queue one report, and count it against its limits, in one commit; or nothing at all.

        `full` when a limit is reached; `not_memoised` when the ledger does not hold the digest.
        """

    def last_period(self, metric: str, latest: int) -> int | None:
        """The last period up to `latest` in which a report of `metric` was counted, or None."""

    def count_by(self, name: str, unit: str, present: int | None = None) -> None:
        """Count what goes by `name` in periods of this unit; carry over what another counted.

        present: number of the period that it is now, where it is known: far from it, periods that
        have reports may be marked as used up instead of being counted on.
        """

    def line(self, name: str) -> Line | None:
        """A line of the ledger, or None."""

    def lines(self) -> list[Line]:
        """All lines, by name."""

    def put_line(self, line: Line) -> None:
        """Add or replace a line."""

    def entries(self, line: str) -> list[Entry]:
        """The memoised responses of a line, with the reports made from each, queued ones too."""

    def add_entry(self, entry: Entry) -> None:
        """Memoise one more response; the generation grows."""

    def get(self, name: str) -> Any:
        """A number or text of the device as a whole, or None. It outlives the secret."""

    def put(self, name: str, value: object) -> None:
        """Set it, or (None) remove it."""

    def note(self, name: str) -> str | None:
        """A text kept under a name, or None. Private; wiped with the values."""

    def put_note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one."""

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter that `inspect` shows."""
