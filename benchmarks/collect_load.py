"""The load for bench_collect.py: prepared requests, and connections that send them."""

import asyncio
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import encode_json
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE, Report, make_batch

METRICS = """
[metrics.homepage]
kind = "string"
description = "Home page of the browser"
owner = "bench@example.org"
expires = 2099-12-31
num_bits = 128
num_hashes = 2
num_cohorts = 32
prob_f = 0.75
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
"""
CONNECTIONS = 32
PLACEHOLDER = b"an-id-of-a-batch"


@dataclass(frozen=True)
class Load:
    """The load to send: the form, `json` or `binary`, and the number of reports per request."""

    form: str
    reports: int


def metric() -> Metric:
    return parse_metrics(METRICS).metrics["homepage"]


def make_frames(load: Load) -> list[tuple[bytes, bytes]]:
    """Return 20 HTTP requests, each as the bytes before and after the batch's id."""
    declared, today, rng = metric(), datetime.now(UTC).date(), random.Random(1)
    as_text = load.form == "json"
    encode = encode_json if as_text else encode_binary
    kind = JSON_CONTENT_TYPE if as_text else BINARY_CONTENT_TYPE
    written = PLACEHOLDER.hex().encode() if as_text else PLACEHOLDER
    frames = []
    for _ in range(20):
        reports = [
            Report(declared.name, declared.params_id, rng.randrange(32), today, rng.randbytes(16))
            for _ in range(load.reports)
        ]
        body = encode(make_batch(PLACEHOLDER, reports))
        head = (
            f"POST /v1/reports HTTP/1.1\r\nHost: bench\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        before, _, after = body.partition(written)
        frames.append((head.encode() + before, after))
    return frames


def make_requests(load: Load, count: int) -> list[bytes]:
    """Return complete HTTP requests, each a batch with its own id."""
    frames, as_text = make_frames(load), load.form == "json"
    ids = (os.urandom(16) for _ in range(count))
    written_ids = (number.hex().encode() if as_text else number for number in ids)
    return [text.join(frames[number % len(frames)]) for number, text in enumerate(written_ids)]


def whole_answer(received: bytes) -> bytes | None:
    """Return the body of an HTTP answer, or None until it is complete."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return None
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return body if len(body) >= length else None


class Connection(asyncio.Protocol):
    """A minimal connection that sends a request, waits for its answer, and sends the next one."""

    def __init__(self, queue: Iterator[bytes], deadline: float) -> None:
        self._queue = queue
        self._deadline = deadline
        self.answers = 0
        self._received = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if whole_answer(self._received) is None:
            return
        self.answers += 1
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._finish(SystemExit(f"a request was rejected: {self._received[:300]!r}"))
            return
        self._received = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(SystemExit(f"the server closed the connection: {exc}"))

    def _send(self) -> None:
        request = next(self._queue, None) if time.perf_counter() < self._deadline else None
        if request is None:
            self._finish(None)
        else:
            self._transport.write(request)

    def _finish(self, error: BaseException | None) -> None:
        if not self.done.done():
            self.done.set_result(error)
        self._transport.close()


async def drive(
    port: int, requests: list[bytes], seconds: float, connections: int = CONNECTIONS
) -> float:
    """Keep the connections busy for a time; return the rate of answers, which must all be 200."""
    loop = asyncio.get_running_loop()
    queue = iter(requests)
    started = time.perf_counter()
    clients = [
        await loop.create_connection(
            lambda: Connection(queue, started + seconds), "127.0.0.1", port
        )
        for _ in range(connections)
    ]
    errors = await asyncio.gather(*(connection.done for _, connection in clients))
    elapsed = time.perf_counter() - started
    for error in filter(None, errors):
        raise error
    if next(queue, None) is None:
        raise SystemExit("the requests ran out before the time was up; prepare more")
    return sum(connection.answers for _, connection in clients) / elapsed
