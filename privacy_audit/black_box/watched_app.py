"""Run an app with the client in it as a program; watch its requests and the files of its state."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

from privacy_audit.black_box.lives import Value
from privacy_audit.black_box.requests import batch_of
from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.errors import WireFormatError
from rappor_core.failures import failure_reason

OWN_APP = f"{shlex.quote(sys.executable)} -m privacy_audit.black_box.sdk_app"
OFTEN = 5  # times that each value is recorded, in a moment
SECONDS = 60.0  # to send what waits, at most
HANGS = 0.5  # seconds that an app waits for a request that hangs
QUIET = 1.5  # seconds after a withdrawal in which a request would still come


class AppRequest(NamedTuple):
    """One request as it came. connection: its number; line: method, path, version."""

    connection: int
    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass
class AppDevice:
    """What was seen of one device.

    requests: answered with 200.  refused: answered with 503.  early: requests before the app asked
    to send.  late: those that began after consent was withdrawn.  hung: how many hung at that
    moment.  running, closed, wiped: all bytes of the state while the app ran, after it, and after
    a withdrawal.
    """

    requests: list[AppRequest] = field(default_factory=list)
    refused: list[AppRequest] = field(default_factory=list)
    early: int = 0
    late: int = 0
    hung: int = 0
    running: list[bytes] = field(default_factory=list)
    closed: bytes = b""
    held: bytes = b""
    wiped: bytes = b""


class _Collector(ThreadingHTTPServer):
    """A collector on a free loopback port: it answers, refuses, or lets a request hang."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[AppRequest] = []
        self.refused: list[AppRequest] = []
        self.refusals = 0  # to come
        self.hanging: threading.Event | None = None  # requests wait until it is set
        self.connections = count()

    def handle_error(self, request: object, client_address: object) -> None:
        """A device that hangs up is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Collector

    def setup(self) -> None:
        super().setup()
        self._number = next(self.server.connections)

    def handle_one_request(self) -> None:
        """Take any method: `do_GET` and the like are all the same here."""
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = AppRequest(self._number, self.requestline, tuple(self.headers.items()), body)
        collector = self.server
        if collector.hanging is not None:
            collector.refused.append(request)
            collector.hanging.wait(SECONDS)
            self._answer(503, b"")
        elif collector.refusals:
            collector.refusals -= 1
            collector.refused.append(request)
            self._answer(503, b"")
        else:
            collector.seen.append(request)
            self._answer(200, _accepted(body))

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None: ...


def _accepted(body: bytes) -> bytes:
    try:
        batch = batch_of(body)
    except WireFormatError:
        return b"{}"  # the checks say so
    results = [{"status": "accepted"}] * batch.num_reports
    answer = {"version": 1, "batch_id": batch.batch_id, "results": results, "duplicate": False}
    return json.dumps(answer).encode()


class _App:
    """The program, from the beginning of a `with` block to its end."""

    def __init__(self, command: str) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 (the program that the user names)
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise AuditError(f"{command!r} cannot be started: {failure_reason(error)}") from error

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Give a command and read its answer. Raises AuditError, AuditedClientError."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 (both are pipes)
        try:
            stdin.write(json.dumps({"do": do, **fields}) + "\n")
            stdin.flush()
            line = stdout.readline()
            answer: dict[str, Any] = json.loads(line)
        except (OSError, ValueError) as error:
            raise AuditError(f"the app did not answer {do!r}: {failure_reason(error)}") from error
        if not answer.get("ok"):
            raise AuditedClientError(f"the app refused {do!r}: {line.strip()[:200]}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdout.close()


def watch(
    command: str, metrics: Path, folder: Path, values: dict[str, Value], number: int
) -> AppDevice:
    """Run one device: record, send, close; with another state, withdraw while a request hangs.

    Args:
        command: The program.
        metrics: The compiled metrics.
        folder: For its state; new.
        values: What it records, by metric.
        number: Of the device; the first request of every second one is refused once.

    Raises:
        AuditError: If the program cannot be run.
        AuditedClientError: If it refuses a command.
    """
    device, collector = AppDevice(), _Collector()
    thread = threading.Thread(target=collector.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{collector.server_address[1]}"
    where = {"metrics": str(metrics), "state_dir": str(folder / "first"), "collector": url}
    try:
        with _App(command) as app:
            app.ask("open", **where)
            _record(app, values)
            device.running.append(bytes_of(folder / "first"))
            device.early = len(collector.seen)
            collector.refusals = number % 2
            app.ask("flush", seconds=SECONDS)
            _record(app, values)
            app.ask("flush", seconds=SECONDS)
            device.running.append(bytes_of(folder / "first"))
            app.ask("close")
        device.closed = bytes_of(folder / "first")
        device.requests, device.refused = collector.seen, collector.refused
        with _App(command) as app:
            app.ask("open", **where | {"state_dir": str(folder / "again")})
            _record(app, values)
            device.held = bytes_of(folder / "again")
            collector.seen, collector.refused, collector.hanging = [], [], threading.Event()
            app.ask("flush", seconds=HANGS)
            device.hung = len(collector.refused)
            app.ask("withdraw")
            released, collector.hanging = collector.hanging, None
            released.set()
            time.sleep(QUIET)
            device.late = len(collector.seen) + len(collector.refused) - device.hung
            device.wiped = bytes_of(folder / "again")
            app.ask("close")
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    return device


def _record(app: _App, values: dict[str, Value]) -> None:
    for _ in range(OFTEN):
        for name, value in values.items():
            app.ask("record", metric=name, value=value)


def bytes_of(folder: Path) -> bytes:
    """Names and contents of all files of a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found += [path.name.encode(), path.read_bytes()]
    return b"\0".join(found)
