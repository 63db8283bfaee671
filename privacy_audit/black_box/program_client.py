"""The client under audit, behind a program, and the lives that its devices lead.

The protocol is in docs/porting.md, section 12. A device is named by its secret; the program keeps
its state in memory and opens it again for each command.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, Self

from privacy_audit.black_box.programs import ANSWER_SECONDS, OWN_PROGRAM, Program
from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.calendar import date_of, day_of
from rappor_core.errors import WireFormatError
from rappor_core.metrics.compiled import compiled, compiled_text, read_compiled
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, MAX_REPORTS

Value = str | bool | float | None  # None is no data, of a metric of numbers


class Event(NamedTuple):
    """A device that was closed is opened and records. day: since 1970-01-01, UTC."""

    metric: str
    day: int
    value: Value


class Life(NamedTuple):
    """The life of one device. secret: 32 bytes, fresh for each trial. events: in order of days."""

    secret: bytes
    events: tuple[Event, ...]


class SeenReport(NamedTuple):
    """A report as decoded from wire bytes. day: since 1970-01-01, UTC."""

    metric: str
    cohort: int
    day: int
    bits: bytes


class Derived(NamedTuple):
    """The cohort and responses that a device derives for one value; bits as integers."""

    cohort: int
    bloom_bits: int
    permanent_bits: int


@dataclass(frozen=True)
class ClientSource:
    """Which client is audited. metrics: the compiled metrics as text. command: of its program."""

    metrics: str
    command: str = OWN_PROGRAM

    def file(self) -> MetricsFile:
        """Read the metrics file of these clients."""
        return read_compiled(self.metrics)

    def declaring(self, file: MetricsFile) -> ClientSource:
        """The same program with other metrics."""
        return ClientSource(compiled_text(file), self.command)

    def started(self) -> ProgramClient:
        """Start the program. Raises AuditError."""
        return ProgramClient(self.file(), self.command)


class ProgramClient:
    """An audited client, from its construction to the end of a `with` block."""

    def __init__(self, file: MetricsFile, command: str) -> None:
        """Start the program and give it the compiled metrics. Raises AuditError."""
        self._program = Program(command, ANSWER_SECONDS)
        try:
            self._program.ask([{"do": "metrics", "document": compiled(file)}])
        except AuditedClientError as error:
            self._program.close()
            raise AuditError(f"{command!r}: {error}") from error
        except BaseException:
            self._program.close()
            raise

    def encode(self, lives: list[Life], together: int = 1) -> list[list[SeenReport]]:
        """Encode each event of each life: the mechanism alone, without ledger and limits.

        Args:
            lives: Of devices.
            together: The most reports of one value between two openings of a device.

        Returns:
            The reports of each life, one for each event.

        Raises:
            AuditedClientError: If the program refuses a command or its answer cannot be read.
        """
        runs = [list(_runs(life, together)) for life in lives]
        commands = [
            _encode(metric, life.secret, value, len(days))
            for life, own in zip(lives, runs, strict=True)
            for metric, value, days in own
        ]
        answers, seen = iter(self._program.ask(commands)), []
        with _readable("encode"):
            for own in runs:
                reports: list[SeenReport] = []
                for metric, _, days in own:
                    answer = next(answers)
                    for day, bits in zip(days, answer["report_bits"], strict=True):
                        reports.append(
                            SeenReport(metric, answer["cohort"], day, bytes.fromhex(bits))
                        )
                seen.append(reports)
        return seen

    def record(self, lives: list[Life]) -> list[list[SeenReport]]:
        """Run devices with their ledgers through their lives.

        Returns:
            The reports that each device queued, in order, as a batch's bytes hold them.

        Raises:
            AuditedClientError: If the program refuses a command or its answer cannot be read.
        """
        answers = iter(
            self._program.ask(
                [
                    {
                        "do": "record",
                        "metric": event.metric,
                        "secret": life.secret.hex(),
                        "value": event.value,
                        "day": date_of(event.day).isoformat(),
                    }
                    for life in lives
                    for event in life.events
                ]
            )
        )
        with _readable("record"):
            answered = [[next(answers)["report"] for _ in life.events] for life in lives]
            queued = [[report for report in own if report is not None] for own in answered]
            seen = iter(self._over_the_wire([report for own in queued for report in own]))
            return [[next(seen) for _ in own] for own in queued]

    def derive(self, metric: str, asked: list[tuple[bytes, Value]]) -> list[Derived]:
        """Ask for the derivations of devices of one metric, given pairs of secret and value."""
        answers = self._program.ask([_encode(metric, secret, value, 1) for secret, value in asked])
        with _readable("encode"):
            return [
                Derived(a["cohort"], _whole(a["bloom_bits"]), _whole(a["permanent_bits"]))
                for a in answers
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.close()

    def _over_the_wire(self, reports: list[Any]) -> list[SeenReport]:
        """Put reports into batches whose bytes must say the same; return them in their order."""
        own = [
            SeenReport(r["metric"], r["cohort"], r["day"], base64.b64decode(r["bits"]))
            for r in reports
        ]
        for start in range(0, len(reports), MAX_REPORTS):
            part = slice(start, start + MAX_REPORTS)
            command = {"do": "batch", "batch_id": os.urandom(16).hex(), "reports": reports[part]}
            (answer,) = self._program.ask([command])
            groups = decode_batch(bytes.fromhex(answer["binary"]), BINARY_CONTENT_TYPE).groups
            read = [
                SeenReport(group.metric, cohort, day_of(group.day), bits)
                for group in groups
                for cohort, bits in group.rows
            ]
            if sorted(read) != sorted(own[part]):
                raise AuditedClientError(
                    "the program's batch does not hold the reports that it was given"
                )
        return own


@contextmanager
def _readable(do: str) -> Iterator[None]:
    """Turn what an answer lacks into an AuditedClientError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, WireFormatError) as error:
        raise AuditedClientError(
            f"the program's answer to {do!r} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _runs(life: Life, together: int) -> Iterator[tuple[str, Value, list[int]]]:
    """The days of each run of one value, cut so that none has more than `together` reports."""
    for (metric, value), events in groupby(life.events, key=lambda event: (event[0], event[2])):
        days = [event.day for event in events]
        for start in range(0, len(days), together):
            yield metric, value, days[start : start + together]


def _encode(metric: str, secret: bytes, value: Value, count: int) -> dict[str, Any]:
    command = {"do": "encode", "metric": metric, "secret": secret.hex(), "value": value}
    return command if count == 1 else {**command, "count": count}


def _whole(text: str) -> int:
    """Bits as on the wire, in hexadecimal, as an integer."""
    return int.from_bytes(bytes.fromhex(text), "little")
