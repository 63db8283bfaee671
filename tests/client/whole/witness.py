"""Messages to and from a controlled process: what it is asked to do, and what was observed.
Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal, NamedTuple

from tests.client.whole import environment

Recorded = tuple[str, object]  # a metric and its value; of places a latitude and a longitude


@dataclass(frozen=True)
class Sitting:
    """An app is opened, records, sends, and is closed. now: its clock.  alone: one value, whose
    planned time of sending is looked at.  looked: whether the files are, afterwards.  sent: whether
    the app asks to send.  refused: how the collector answers the first requests after it: a status,
    or 0 for a connection that is closed without a word.  withdrawn: whether the person says no and
    yes again before anything is recorded: in the open client, or in another one before it.
    """

    now: float
    recorded: tuple[Recorded, ...]
    alone: bool = False
    looked: bool = False
    sent: bool = True
    refused: tuple[int, ...] = ()
    withdrawn: Literal["", "open", "closed"] = ""


@dataclass(frozen=True)
class WitnessTask:
    """What one controlled process has to run.

    metrics: compiled.  root: folder of the state directories.  seed: of all its randomness.
    machine: host, user and clock that it sees.  lives: the sittings of each device.
    delivery: options of the app's `Delivery`.
    """

    metrics: str
    root: str
    seed: bytes
    machine: environment.Machine
    lives: tuple[tuple[Sitting, ...], ...]
    delivery: tuple[tuple[str, object], ...] = ()


class WitnessedRequest(NamedTuple):
    """One HTTP request as its bytes on the wire show it. connection: its number."""

    connection: int
    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass
class WitnessedDevice:
    """All observations of one device.

    requests: of each time that the app asked to send.  early: requests before that.  delays:
    planned seconds.  files: by sitting that was looked at, all bytes of the state.  secret:
    private, as the first sitting left it; last_secret: as the last one did.  unwanted: requests
    between a no and a new yes; wiped: all bytes of the state at that time; since: the number of
    `requests` before.  disturbed: a thread waited for another in vain and drew again, so that its
    draws are no other device's.  stuck: why what waited could not be sent, after which its life
    was ended.
    refused: requests that the collector did not take.  strange: other requests than for reports.
    silent: connections without a request.  spoken, written: see `environment.Acts`.  said: lines
    of the log, at all levels, and of what was printed, sorted.
    """

    requests: list[list[WitnessedRequest]] = field(default_factory=list)
    disturbed: bool = False
    early: int = 0
    delays: list[float] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)
    secret: bytes = b""
    last_secret: bytes = b""
    unwanted: list[WitnessedRequest] = field(default_factory=list)
    wiped: list[bytes] = field(default_factory=list)
    since: int = 0
    stuck: str = ""
    refused: list[WitnessedRequest] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    silent: int = 0
    spoken: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@dataclass
class Witnessed:
    """The observations of a controlled process. devices: in order. read: files of the system
    that identify the machine. drawn: bytes."""

    devices: list[WitnessedDevice]
    read: list[str]


class Influence(NamedTuple):
    """How many of the random bytes that were drawn change a value (a secret, a report). entropy:
    bits that its law has.

    drawn: bytes that were asked of the system.  bits: of those, how many change it.
    """

    what: str
    metric: str
    entropy: float
    drawn: int
    bits: int


def witness(asked: WitnessTask) -> Witnessed:
    """Run devices in a controlled process of its own, and observe them. Raises
    AuditedClientError."""
    environment.control(asked.seed, asked.machine)
    runner = import_module("tests.client.whole.witnessed_client")  # after the exchange
    found: Witnessed = runner.run(asked)
    return found


def influences(asked: WitnessTask) -> list[Influence]:
    """Measure how much of the system's randomness changes secrets and reports. Raises
    AuditedClientError."""
    environment.control(asked.seed, asked.machine)
    runner = import_module("tests.client.whole.witnessed_client")
    found: list[Influence] = runner.influences(asked)
    return found
