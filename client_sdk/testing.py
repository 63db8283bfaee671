"""Tools for app tests: an in-memory collector, an observed client and fixed randomness.

The collector uses real HTTP. The client stores all recorded values, and the collector all sent
reports. With pytest installed, the fixture `rappor` is an `ObservedApp`
(`rappor_telemetry_pytest`). Not for production code: no other module in `client_sdk` imports it.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256, shake_256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, cast

from client_sdk.client import Client
from client_sdk.delivery.messages import GZIP, PROBLEM_TYPE, PROBLEM_URN
from client_sdk.delivery.options import Delivery
from client_sdk.delivery.transport import REPORTS_PATH
from client_sdk.session import Session
from rappor_core.errors import WireFormatError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import Batch, Report

MAX_BODY_BYTES = 4 << 20


class FixedRandomness:
    """Random bytes that repeat in every run, for tests only: SHAKE-256 of a seed and a counter."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, num_bytes: int) -> bytes:
        """Return the next bytes of the sequence."""
        self._calls += 1
        key = self._seed.to_bytes(8, "big") + self._calls.to_bytes(8, "big")
        return shake_256(key).digest(num_bytes)


class MemoryCollector:
    """A collector on a free loopback port that stores every report that it counted.

    Use it in a `with` block; `url` is its address.

    Attributes:
        metrics: If given, reports for other metrics or parameters are rejected.
        answer: If given, a function that is called with the batch before anything is counted. Its
            result (status, headers, body) is the answer instead. The function may sleep, or raise
            ConnectionError to close the connection without an answer.
        lose_answers: How many of the next batches are counted but not answered.
    """

    def __init__(self, metrics: Mapping[str, Metric] | None = None) -> None:
        """Open the port; requests are served once the `with` block is entered."""
        self.metrics = metrics
        self.answer: Callable[[Batch], tuple[int, dict[str, str], bytes] | None] | None = None
        self.lose_answers = 0
        self.reports: list[Report] = []
        self.requests: list[tuple[Mapping[str, str], bytes]] = []
        self.duplicates = 0
        self._seen: dict[str, tuple[bytes, list[dict[str, str]]]] = {}
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """Return the address of the collector: `http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def counted(self) -> Counter[str]:
        """Return the number of counted reports of each metric."""
        with self._lock:
            return Counter(report.metric for report in self.reports)

    def __enter__(self) -> MemoryCollector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, batch: Batch, body: bytes) -> tuple[int, dict[str, Any]]:
        """Count a batch once, even if it arrives again; reject its id with a different body."""
        digest = sha256(body).digest()
        with self._lock:
            earlier = self._seen.get(batch.batch_id)
            if earlier is not None and earlier[0] != digest:
                return 409, {"title": "batch id used before with another body"}
            if earlier is None:
                results = [self._result(report) for report in batch.reports]
                self._seen[batch.batch_id] = digest, results
            else:
                self.duplicates += 1
                results = earlier[1]
        answer = {"version": 1, "batch_id": batch.batch_id, "results": results}
        return 200, {**answer, "duplicate": earlier is not None}

    def _result(self, report: Report) -> dict[str, str]:
        if self.metrics is not None:
            metric = self.metrics.get(report.metric)
            if metric is None:
                return {"status": "refused", "reason": "unknown_metric"}
            if metric.params_id != report.params_id:
                return {"status": "refused", "reason": "wrong_params_id"}
        self.reports.append(report)
        return {"status": "accepted"}


class Recorded(NamedTuple):
    """A value as recorded by an app, and the reason if it was refused."""

    metric: str
    value: object
    refusal: str  # "" if it was accepted


class ObservedClient(Client):
    """A client that also stores the recorded values, unprotected. For tests only."""

    def __init__(self, setup: Any) -> None:
        super().__init__(setup)
        self.recorded: list[Recorded] = []

    def _do(self, act: Callable[..., str | None], name: str, *rest: object) -> bool:
        is_queued = super()._do(act, name, *rest)
        value = rest[0]
        if act is Session.take and isinstance(value, tuple) and len(value) == 1:
            (value,) = value  # a fix is recorded as one point, a trip as two
        self.recorded.append(Recorded(name, value, "" if is_queued else self.last_refusal))
        return is_queued


class ObservedApp:
    """A client with consent, its in-memory collector, and assertions on what leaves the device.

    Use it in a `with` block. `metrics` is the result of `load_metrics`; `folder` is for the state.
    The client is in development mode, so an undeclared name or an invalid value raises an error.
    """

    def __init__(self, metrics: MetricsFile, folder: Path) -> None:
        """Create client and collector; the collector listens once the `with` block is entered."""
        self.collector = MemoryCollector(metrics.metrics)
        opened = ObservedClient.open(
            metrics, state_dir=folder, collector=self.collector.url, consent=True,
            delivery=Delivery(mean_delay=0), development=True,
        )  # fmt: skip
        self.client = cast(ObservedClient, opened)

    def __enter__(self) -> ObservedApp:
        self.collector.__enter__()
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.client.close()
        self.collector.__exit__(*error)

    def assert_sent(self, metric: str, *values: object) -> None:
        """Raise AssertionError unless exactly these values were recorded and reported.

        Reports are randomized, so the collector sees that there is a report, but not its value. For
        metrics that report once per period (numbers, places), use `assert_recorded`.
        """
        self.assert_recorded(metric, *values)
        delivered = self.client.flush(10)
        sent = self.collector.counted()[metric]
        if not delivered or sent != len(values):
            why = f"{self.client.status.sentence} {self.client.last_error}"
            raise AssertionError(
                f"{sent} reports of {metric!r} were sent, not {len(values)}; {why}"
            )

    def assert_recorded(self, metric: str, *values: object) -> None:
        """Raise AssertionError unless exactly these values were accepted, in this order."""
        mine = [record for record in self.client.recorded if record.metric == metric]
        for call in mine:
            if call.refusal:
                raise AssertionError(f"not recorded: {metric!r}, {call.value!r}: {call.refusal}")
        recorded = tuple(call.value for call in mine)
        if recorded != values:
            raise AssertionError(f"{metric!r}: recorded {recorded!r}, not {values!r}")

    def assert_nothing_sent(self) -> None:
        """Raise AssertionError if a report was sent or is waiting."""
        self.client.flush(10)
        if sent := dict(self.collector.counted()):
            raise AssertionError(f"reports were sent: {sent}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, collector: MemoryCollector) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.collector = collector

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a device that hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        """Answer one batch as the collector does."""
        collector = self.server.collector
        raw = self.rfile.read(min(int(self.headers["Content-Length"]), MAX_BODY_BYTES))
        collector.requests.append((dict(self.headers), raw))
        try:
            is_gzip = self.headers["Content-Encoding"] == "gzip"
            body = zlib.decompress(raw, GZIP) if is_gzip else raw
            batch = decode_batch(body, self.headers["Content-Type"]).ungrouped()
            if self.path != REPORTS_PATH:
                self._reply(404, {"title": "not found"}, raw)
                return
            instead = collector.answer(batch) if collector.answer is not None else None
        except (WireFormatError, zlib.error) as error:
            self._reply(400, {"title": "not a batch", "detail": str(error)}, raw)
            return
        except ConnectionError:
            self.close_connection = True
            return
        if instead is not None:
            self._write(*instead)
            return
        status, document = collector.take(batch, body)
        if collector.lose_answers > 0:
            collector.lose_answers -= 1
            self.close_connection = True
            return
        self._reply(status, document, raw)

    def _reply(self, status: int, document: dict[str, Any], raw: bytes) -> None:
        if status != 200:
            digest = sha256(raw).hexdigest()
            ours = {"type": f"{PROBLEM_URN}test", "status": status, "body_sha256": digest}
            document = {**ours, **document}
        kind = "application/json" if status == 200 else PROBLEM_TYPE
        self._write(status, {"Content-Type": kind}, json.dumps(document).encode())

    def _write(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the log line of each request."""
