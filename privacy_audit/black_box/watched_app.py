"""Run an app that contains the client as a program; watch its requests and state files."""

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

OFTEN = 5  # the number of times that each value is recorded in quick succession
SECONDS = 60.0  # the maximum time to send the queue
HANGS = 0.5  # seconds that an app waits for a request that hangs
QUIET = 1.5  # seconds after a withdrawal in which a request would still arrive


@dataclass
class AppDevice:
    """The observations of one device."""

    requests: list[Request] = field(default_factory=list)  # answered with 200
    refused: list[Request] = field(default_factory=list)  # answered with 503
    early: int = 0  # the number of requests before the app asked to send
    late: int = 0  # the number of requests that began after consent was withdrawn
    hung: int = 0  # the number of requests that hung at that moment
    running: list[bytes] = field(default_factory=list)  # all bytes of the state of a running app
    closed: bytes = b""  # all bytes of the state after the app closed
    held: bytes = b""
    wiped: bytes = b""  # all bytes of the state after a withdrawal


class _Collector(ThreadingHTTPServer):
    """A collector on a free loopback port, which answers, rejects, or leaves a request hanging."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Request] = []
        self.refused: list[Request] = []
        self.refusals = 0  # the number of next requests to reject
        self.hanging: threading.Event | None = None  # requests wait until it is set
        self.connections = count()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a device that hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Collector

    def setup(self) -> None:
        super().setup()
        self._number = next(self.server.connections)

    def handle_one_request(self) -> None:
        """Handle any method in the same way, unlike `do_GET` and the like."""
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
        return b"{}"  # the checks report it
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
        folder: A new folder for its state.
        values: The recorded values, by metric.
        number: The number of the device; every second device has its first request rejected.

    Raises:
        AuditError: The program cannot be run.
        AuditedClientError: The program refuses a command.
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
    """Return the names and contents of all files in a folder."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            parts += [path.name.encode(), path.read_bytes()]
    return b"\0".join(parts)
