"""The life of an audited device (values, days, looks at the clock), and the reports that it
sends."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rappor_core.calendar import SECONDS_A_DAY
from rappor_core.metrics.metrics_file import MetricsFile

NOTHING = "\0nothing"  # the value of a day on which the app records nothing

# A place is its latitude and longitude; None is no data, of a metric of numbers.
Value = str | bool | float | tuple[float, float] | None
Step = tuple[int, Value]  # a day since 1970-01-01 and what is recorded on it


def hour_of(day: int) -> int:
    """The hour, UTC, at which an app is opened on a day: another one each day, in every life."""
    return (day * 2_654_435_761 >> 16) % 24


def time_of(day: int) -> float:
    """Seconds since 1970 at which an app is opened on a day, at the hour of `hour_of`."""
    return float(day * SECONDS_A_DAY + 3600 * hour_of(day))


class Life(NamedTuple):
    """The life of one device. secret: 32 bytes, fresh for each trial. steps: in the order of
    days.

    A step ("metric", day, value) takes place on a device that was closed and opened again.
    """

    secret: bytes
    steps: tuple[Step, ...]


class Event(NamedTuple):
    """A device that was closed is opened, records, and is closed.

    metric: its declared name.  version: of the app: which of several files it has.
    """

    metric: str
    day: int
    value: Value
    version: int = 0


class WholeLife(NamedTuple):
    """The life of one device with all its metrics. secret: 32 bytes. events: in order."""

    secret: bytes
    events: tuple[Event, ...]


class SeenReport(NamedTuple):
    """A report as decoded from wire bytes. day: since 1970-01-01, UTC."""

    metric: str
    cohort: int
    day: int
    bits: bytes


class Derived(NamedTuple):
    """The cohort and responses that a device derives for one value; bits as integers. Private:
    for audits alone."""

    cohort: int
    bloom_bits: int
    permanent_bits: int


class AuditedClient(Protocol):
    """The interface to a client under audit. Devices are opened anew for each step of each life."""

    def encode(self, metric: str, lives: list[Life], together: int = 1) -> list[list[SeenReport]]:
        """The mechanism alone: one report for each step; no ledger, no limits.

        together: at most so many steps of a device between two openings.
        """

    def record(self, metric: str, lives: list[Life], renewed: int = 0) -> list[list[SeenReport]]:
        """Run devices with their ledgers through their lives; return all reports that each
        queued, in order.

        renewed: the step from which on the app declares other chances; 0: it never does.
        """

    def live(
        self, lives: list[WholeLife], versions: tuple[MetricsFile, ...] = ()
    ) -> list[list[SeenReport]]:
        """Run devices of several metrics through their lives; return all reports that each
        queued.

        versions: files of later versions of the app, of which events tell the number from 1.
        """

    def derive(self, metric: str, asked: list[tuple[bytes, Value]]) -> list[Derived]:
        """Derive cohort, Bloom bits and permanent response for secrets and values."""

    def close(self) -> None:
        """Stop whatever the client started."""
