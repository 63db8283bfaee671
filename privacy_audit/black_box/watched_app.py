"""Run an app with the client in it as a program; watch its requests and the files of its state."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from privacy_audit.black_box.program_client import ANSWER_SECONDS, Program, Value
from privacy_audit.black_box.requests import Request, batch_of
from rappor_core.errors import WireFormatError

OFTEN = 5  # times that each value is recorded, in a moment
SECONDS = 60.0  # to send what waits, at most
HANGS = 0.5  # seconds that an app waits for a request that hangs
QUIET = 1.5  # seconds after a withdrawal in which a request would still come


@dataclass
class AppDevice:
    """What was seen of one device.

    requests: answered with 200.  refused: answered with 503.  early: requests before the app asked
    to send.  late: those that began after consent was withdrawn.  hung: how many hung at that
    moment.  running, closed, wiped: all bytes of the state while the app ran, after it, and after
    a withdrawal.
    """

    requests: list[Request] = field(default_factory=list)
    refused: list[Request] = field(default_factory=list)
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
        self.seen: list[Request] = []
        self.refused: list[Request] = []
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
        request = Request(self._number, self.requestline, tuple(self.headers.items()), body)
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
    first, again = folder / "first", folder / "again"
    opened = {"do": "open", "metrics": str(metrics), "collector": url}
    recorded = [
        {"do": "record", "metric": name, "value": value} for name, value in values.items()
    ] * OFTEN
    flushed = {"do": "flush", "seconds": SECONDS}
    wait = SECONDS + ANSWER_SECONDS
    try:
        with Program(command, wait, quiet=True) as app:
            app.ask([opened | {"state_dir": str(first)}, *recorded])
            device.running.append(bytes_of(first))
            device.early = len(collector.seen)
            collector.refusals = number % 2
            app.ask([flushed])
            app.ask([*recorded, flushed])
            device.running.append(bytes_of(first))
            app.ask([{"do": "close"}])
        device.closed = bytes_of(first)
        device.requests, device.refused = collector.seen, collector.refused
        with Program(command, wait, quiet=True) as app:
            app.ask([opened | {"state_dir": str(again)}, *recorded])
            device.held = bytes_of(again)
            collector.seen, collector.refused, collector.hanging = [], [], threading.Event()
            app.ask([{"do": "flush", "seconds": HANGS}])
            device.hung = len(collector.refused)
            app.ask([{"do": "withdraw"}])
            released, collector.hanging = collector.hanging, None
            released.set()
            time.sleep(QUIET)
            device.late = len(collector.seen) + len(collector.refused) - device.hung
            device.wiped = bytes_of(again)
            app.ask([{"do": "close"}])
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    return device


def bytes_of(folder: Path) -> bytes:
    """Names and contents of all files of a folder."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            parts += [path.name.encode(), path.read_bytes()]
    return b"\0".join(parts)
