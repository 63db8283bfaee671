"""Run a program under audit: it answers each line of JSON on standard input with one line.

A program that never answers ends the audit after `ANSWER_SECONDS`, with an error that names it.
"""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Self

from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.failures import failure_reason

OWN_MODULE = "privacy_audit.sdk_program"
OWN_PROGRAM = f"{shlex.quote(sys.executable)} -m {OWN_MODULE}"
ANSWER_SECONDS = 60.0
END_SECONDS = 30.0  # after its input has ended

Answer = dict[str, Any]


class Program:
    """A program that runs from its construction to `close`, or to the end of a `with` block."""

    def __init__(
        self, command: str, answer_seconds: float = ANSWER_SECONDS, *, quiet: bool = False
    ) -> None:
        """Start the program.

        Args:
            command: The program and its arguments, quoted as in a shell.
            answer_seconds: How long the audit waits for one answer.
            quiet: Whether what it writes to standard error is dropped.

        Raises:
            AuditError: If the program cannot be started.
        """
        self._command, self._seconds = command, answer_seconds
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the program that the user names
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL if quiet else None,
            )  # fmt: skip
        except (OSError, ValueError, IndexError) as error:
            raise AuditError(f"{command!r} cannot be started: {failure_reason(error)}") from error
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, commands: list[dict[str, Any]]) -> list[Answer]:
        """Write all commands while the answers are read.

        Args:
            commands: Each with its name as `do`.

        Returns:
            One answer for each command, in order.

        Raises:
            AuditedClientError: If the program ends, refuses a command, or does not write JSON.
            AuditError: If it does not answer in time.
        """
        writer = threading.Thread(target=self._write, args=(commands,), daemon=True)
        writer.start()
        answers = [self._answer(command["do"]) for command in commands]
        writer.join()
        return answers

    def close(self) -> None:
        """End the program: its standard input ends, and it is killed if it does not."""
        assert self._process.stdin is not None  # noqa: S101 (a pipe)
        with suppress(OSError, ValueError):  # it has ended, and what was written is lost
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)  # a child of the program may hold its output open

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
        with suppress(OSError, ValueError):  # the program has ended: the reader says so
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
