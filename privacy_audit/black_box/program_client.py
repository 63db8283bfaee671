"""A client under audit in another program, which answers JSON, one object a line, on standard
input.

The protocol is in docs/porting.md, section 12. A device is named by its secret; the program keeps
its state in memory and opens it anew for each command.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

from privacy_audit.black_box.lives import (
    NOTHING,
    Derived,
    Event,
    Life,
    SeenReport,
    Value,
    WholeLife,
)
from privacy_audit.errors import AuditError
from rappor_core.calendar import date_of, day_of
from rappor_core.errors import WireFormatError
from rappor_core.failures import failure_reason
from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, MAX_REPORTS, ReportGroup

Answer = dict[str, Any]


class ProgramClient:
    """An audited client that runs as a program of its own, from its construction to `close`."""

    def __init__(self, file: MetricsFile, command: str) -> None:
        """Start the program and give it the compiled metrics. Raises AuditError."""
        self._file = file
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the program that the user names
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except (OSError, ValueError) as error:
            raise AuditError(
                f"--command {command!r} cannot be started: {failure_reason(error)}"
            ) from error
        try:
            self._ask([{"do": "metrics", "document": compiled(file)}])
        except BaseException:
            self.close()
            raise

    def encode(
        self,
        metric: str,
        lives: list[Life],
        together: int = 1,
    ) -> list[list[SeenReport]]:
        """Have the program encode each step of each life; return the reports of each life.

        together: most reports of one value that one command asks for; the program opens the
        device anew for each command.
        """
        runs = [list(_runs(life, together)) for life in lives]
        asked = [
            _encode(metric, life.secret, value, len(days))
            for life, some in zip(lives, runs, strict=True)
            for value, days in some
        ]
        told, found = iter(self._ask(asked)), []
        for some in runs:
            seen: list[SeenReport] = []
            for _, days in some:
                answer = next(told)
                for day, bits in zip(days, answer["report_bits"], strict=True):
                    seen.append(SeenReport(metric, answer["cohort"], day, _hex(bits)))
            found.append(seen)
        return found

    def record(self, metric: str, lives: list[Life], renewed: int = 0) -> list[list[SeenReport]]:
        """Run devices through their lives in the program; reports go through `batch` and are
        read from wire bytes.

        Raises AuditError for `renewed`: the protocol has no versions of an app.
        """
        if renewed:
            raise AuditError("the protocol of --command has no versions of an app")
        return self.live(
            [
                WholeLife(
                    life.secret, tuple(Event(metric, day, value) for day, value in life.steps)
                )
                for life in lives
            ]
        )

    def live(
        self, lives: list[WholeLife], versions: tuple[MetricsFile, ...] = ()
    ) -> list[list[SeenReport]]:
        """Run devices of several metrics through their lives. Raises AuditError for `versions`,
        as `record` does."""
        if versions:
            raise AuditError("the protocol of --command has no versions of an app")
        recorded = [[event for event in life.events if event.value != NOTHING] for life in lives]
        asked = [
            {
                "do": "record",
                "metric": event.metric,
                "secret": life.secret.hex(),
                "value": event.value,
                "day": date_of(event.day).isoformat(),
            }
            for life, events in zip(lives, recorded, strict=True)
            for event in events
        ]
        told = iter(self._ask(asked))
        reports: list[list[Any]] = []
        for events in recorded:
            answers = [next(told) for _ in events]
            reports.append([a["report"] for a in answers if a["report"] is not None])
        seen = iter(self._over_the_wire([report for some in reports for report in some]))
        return [[next(seen) for _ in some] for some in reports]

    def derive(self, metric: str, asked: list[tuple[bytes, Value]]) -> list[Derived]:
        """Ask the program for derivations of devices of one metric."""
        answers = self._ask([_encode(metric, secret, value, 1) for secret, value in asked])
        return [
            Derived(a["cohort"], _whole(a["bloom_bits"]), _whole(a["permanent_bits"]))
            for a in answers
        ]

    def close(self) -> None:
        """End the program."""
        if self._process.stdin:
            with suppress(BrokenPipeError):  # it has ended, and what was written is lost
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def _over_the_wire(self, reports: list[Any]) -> list[SeenReport]:
        """The reports in their order; the batch's bytes must say the same. Raises AuditError."""
        own = [SeenReport(r["metric"], r["cohort"], r["day"], _base64(r["bits"])) for r in reports]
        for start in range(0, len(reports), MAX_REPORTS):
            some = reports[start : start + MAX_REPORTS]
            command = {"do": "batch", "batch_id": os.urandom(16).hex(), "reports": some}
            (answer,) = self._ask([command])
            try:
                groups = decode_batch(_hex(answer["binary"]), BINARY_CONTENT_TYPE).groups
            except WireFormatError as error:
                raise AuditError(f"the program's batch cannot be read: {error}") from error
            read = [SeenReport(g.metric, *_row(g, row)) for g in groups for row in g.rows]
            if sorted(read) != sorted(own[start : start + MAX_REPORTS]):
                raise AuditError("the program's batch does not hold the reports that it was given")
        return own

    def _ask(self, commands: list[dict[str, Any]]) -> list[Answer]:
        """Write all commands while the answers are read. Raises AuditError."""
        process = self._process
        assert process.stdin is not None  # noqa: S101 (both are pipes)
        assert process.stdout is not None  # noqa: S101
        text = "".join(json.dumps(command) + "\n" for command in commands)
        writer = threading.Thread(target=_write, args=(process.stdin, text))
        writer.start()
        answers = []
        for command in commands:
            line = process.stdout.readline()
            answers.append(_answer(line, command["do"]))
        writer.join()
        return answers


def _runs(life: Life, together: int) -> Iterator[tuple[Value, list[int]]]:
    """The days of each run of one value, cut so that none has more than `together` reports."""
    for value, steps in groupby(life.steps, key=lambda step: step[1]):
        days = [day for day, _ in steps]
        for start in range(0, len(days), together):
            yield value, days[start : start + together]


def _encode(metric: str, secret: bytes, value: Value, count: int) -> dict[str, Any]:
    command = {"do": "encode", "metric": metric, "secret": secret.hex(), "value": value}
    return command if count == 1 else {**command, "count": count}


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # the program has ended: the reader says so
        return


def _answer(line: str, command: str) -> Answer:
    if not line:
        raise AuditError(f"the program ended before it answered {command!r}")
    try:
        answer = json.loads(line)
    except ValueError:
        raise AuditError(f"the program answered {command!r} with {line[:80]!r}, no JSON") from None
    if not isinstance(answer, dict) or not answer.get("ok"):
        raise AuditError(f"the program refused {command!r}: {line.strip()[:200]}")
    return answer


def _hex(text: str) -> bytes:
    return bytes.fromhex(text)


def _whole(text: str) -> int:
    """Bits as on the wire, in hexadecimal, as an integer."""
    return int.from_bytes(bytes.fromhex(text), "little")


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _row(group: ReportGroup, row: tuple[int, bytes]) -> tuple[int, int, bytes]:
    return row[0], day_of(group.day), row[1]
