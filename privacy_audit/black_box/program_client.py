"""The client under audit, which runs as a program, and the histories of its devices.

The program answers each JSON line on standard input with one line. A program that does not answer
within `ANSWER_SECONDS` ends the audit. The protocol is in docs/porting.md, section 12. A device is
identified by its secret; the program keeps its state in memory and opens it again for each command.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.calendar import date_of, day_of
from rappor_core.errors import WireFormatError
from rappor_core.failures import failure_reason
from rappor_core.metrics.compiled import compiled, compiled_text, read_compiled
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, MAX_REPORTS

OWN_MODULE = "privacy_audit.sdk_program"
OWN_PROGRAM = f"{shlex.quote(sys.executable)} -m {OWN_MODULE}"
ANSWER_SECONDS = 60.0
END_SECONDS = 30.0  # the time limit to exit after the input has ended

Answer = dict[str, Any]
Value = str | bool | float | None  # None means no data, for a number metric


class Event(NamedTuple):
    """A command to open a closed device and record a value; `day` is since 1970-01-01, UTC."""

    metric: str
    day: int
    value: Value


class Life(NamedTuple):
    """The history of one device: a fresh secret of 32 bytes, and events in order of days."""

    secret: bytes
    events: tuple[Event, ...]


class SeenReport(NamedTuple):
    """A report as decoded from wire bytes; `day` is since 1970-01-01, UTC."""

    metric: str
    cohort: int
    day: int
    bits: bytes


class Derived(NamedTuple):
    """The cohort and responses that a device derives for one value, with bits as integers."""

    cohort: int
    bloom_bits: int
    permanent_bits: int


@dataclass(frozen=True)
class ClientSource:
    """The client to audit: the compiled metrics as text, and the command of its program."""

    metrics: str
    command: str = OWN_PROGRAM

    def file(self) -> MetricsFile:
        """Parse the client's metrics file."""
        return read_compiled(self.metrics)

    def declaring(self, file: MetricsFile) -> ClientSource:
        """Return the same program with different metrics."""
        return ClientSource(compiled_text(file), self.command)

    @contextmanager
    def started(self) -> Iterator[ProgramClient]:
        """Start the program and pass it the metrics, for a `with` block. Raises AuditError."""
        with Program(self.command, ANSWER_SECONDS) as program:
            try:
                program.ask([{"do": "metrics", "document": compiled(self.file())}])
            except AuditedClientError as error:
                raise AuditError(f"{self.command!r}: {error}") from error
            yield ProgramClient(program)


_running: WeakSet[subprocess.Popen[str]] = WeakSet()  # used to stop an audit


def end_programs() -> None:
    """Kill all running programs, whose answers are no longer needed."""
    for process in tuple(_running):
        process.kill()


class Program:
    """A program that runs from its construction to `close`, or to the end of a `with` block."""

    def __init__(
        self, command: str, answer_seconds: float = ANSWER_SECONDS, *, quiet: bool = False
    ) -> None:
        """Start the program.

        Args:
            command: The program and its arguments, quoted as in a shell.
            answer_seconds: The time limit for one answer, in seconds.
            quiet: Whether to discard its standard error.

        Raises:
            AuditError: The program cannot be started.
        """
        self._command, self._seconds = command, answer_seconds
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the program that the user names
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL if quiet else None, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError, IndexError) as error:
            raise AuditError(f"{command!r} cannot be started: {failure_reason(error)}") from error
        _running.add(self._process)
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, commands: list[dict[str, Any]]) -> list[Answer]:
        """Write all commands, while a thread reads the answers.

        Args:
            commands: The commands, each with its name as `do`.

        Returns:
            One answer for each command, in order.

        Raises:
            AuditedClientError: The program ends, refuses a command, or does not write JSON.
            AuditError: The program does not answer in time.
        """
        writer = threading.Thread(target=self._write, args=(commands,), daemon=True)
        writer.start()
        answers = [self._answer(command["do"]) for command in commands]
        writer.join()
        return answers

    def close(self) -> None:
        """End the program by closing its standard input; kill it if that does not suffice."""
        assert self._process.stdin is not None  # noqa: S101 (a pipe)
        with suppress(OSError, ValueError):  # it has ended, and the input is lost
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)  # a child of the program may keep its output open

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, do: str) -> Answer:
        try:
            line = self._lines.get(timeout=self._seconds)
        except Empty:
            self._process.kill()
            raise AuditError(
                f"{self._command!r} has not answered {do!r} for {self._seconds:g} seconds: a "
                "program must write one line for each command and flush it (docs/porting.md, "
                "section 12)"
            ) from None
        if not line:
            raise AuditedClientError(f"the program ended before it answered {do!r}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise AuditedClientError(f"the answer to {do!r} is not a JSON object: {line[:80]!r}")
        if not answer.get("ok"):
            raise AuditedClientError(f"the program refused {do!r}: {line.strip()[:300]}")
        return answer

    def _write(self, commands: Iterable[dict[str, Any]]) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 (a pipe)
        with suppress(OSError, ValueError):  # the program has ended, as the reader reports
            for command in commands:
                stdin.write(json.dumps(command) + "\n")
            stdin.flush()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 (a pipe)
        with stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put("")


@dataclass(frozen=True)
class ProgramClient:
    """An audited client in a running program that has received the metrics."""

    _program: Program

    def encode(self, lives: list[Life], together: int = 1) -> list[list[SeenReport]]:
        """Encode each event of each device with the mechanism alone, without ledger and limits.

        Args:
            lives: The histories of devices.
            together: The maximum number of reports for one value between two openings of a device.

        Returns:
            The reports of each device, one for each event.

        Raises:
            AuditedClientError: The program refuses a command, or its answer cannot be read.
        """
        runs = [list(_runs(life, together)) for life in lives]
        commands = [
            _encode(metric, life.secret, value, len(days))
            for life, parts in zip(lives, runs, strict=True)
            for metric, value, days in parts
        ]
        answers, lives_seen = iter(self._program.ask(commands)), []
        with _readable("encode"):
            for parts in runs:
                reports: list[SeenReport] = []
                for metric, _, days in parts:
                    answer = next(answers)
                    reports += [
                        SeenReport(metric, answer["cohort"], day, bytes.fromhex(bits))
                        for day, bits in zip(days, answer["report_bits"], strict=True)
                    ]
                lives_seen.append(reports)
        return lives_seen

    def record(self, lives: list[Life]) -> list[list[SeenReport]]:
        """Run devices with their ledgers through their histories.

        Returns:
            The reports that each device queued, in order, as decoded from a batch's bytes.

        Raises:
            AuditedClientError: The program refuses a command, or its answer cannot be read.
        """
        commands = [
            {"do": "record", "metric": event.metric, "secret": life.secret.hex(),
             "value": event.value, "day": date_of(event.day).isoformat()}
            for life in lives for event in life.events
        ]  # fmt: skip
        answers = iter(self._program.ask(commands))
        with _readable("record"):
            answered = [[next(answers)["report"] for _ in life.events] for life in lives]
            queued = [[report for report in row if report is not None] for row in answered]
            decoded = iter(self._over_the_wire([report for row in queued for report in row]))
            return [[next(decoded) for _ in row] for row in queued]

    def derive(self, metric: str, pairs: list[tuple[bytes, Value]]) -> list[Derived]:
        """Return what devices derive for one metric, for pairs of a secret and a value."""
        answers = self._program.ask([_encode(metric, secret, value, 1) for secret, value in pairs])
        with _readable("encode"):
            return [
                Derived(a["cohort"], _whole(a["bloom_bits"]), _whole(a["permanent_bits"]))
                for a in answers
            ]

    def _over_the_wire(self, reports: list[Any]) -> list[SeenReport]:
        """Check that batches of the reports decode to the same reports; return them in order."""
        direct = [
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
            if sorted(read) != sorted(direct[part]):
                raise AuditedClientError(
                    "the program's batch does not contain the reports that it was given"
                )
        return direct


@contextmanager
def _readable(do: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, WireFormatError) as error:
        raise AuditedClientError(
            f"the program's answer to {do!r} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _runs(life: Life, together: int) -> Iterator[tuple[str, Value, list[int]]]:
    for (metric, value), events in groupby(life.events, key=lambda event: (event[0], event[2])):
        days = [event.day for event in events]
        for start in range(0, len(days), together):
            yield metric, value, days[start : start + together]


def _encode(metric: str, secret: bytes, value: Value, count: int) -> dict[str, Any]:
    command = {"do": "encode", "metric": metric, "secret": secret.hex(), "value": value}
    return command if count == 1 else {**command, "count": count}


def _whole(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")
