"""A collector in a separate process, so that its memory can be read; and hostile connections."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import httpx
import psutil

from rappor_core.metrics.metric import Metric
from tests.collector.crash import await_ready, listening, port_of
from tests.collector.support import make_bench

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    port: int
    process: psutil.Process
    http: httpx.Client
    sockets: list[socket.socket]

    @property
    def rss(self) -> int:
        return int(self.process.memory_info().rss)

    def connect(self, source: str = "127.0.0.1", *, receive_bytes: int | None = None) -> Socket:
        """A connection from an address of this machine; all of 127.0.0.0/8 are."""
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_bytes is not None:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        one.settimeout(20)
        one.bind((source, 0))
        one.connect(("127.0.0.1", self.port))
        self.sockets.append(one)
        return one


Socket = socket.socket


def today() -> date:
    return datetime.now(UTC).date()


@contextmanager
def target(database: str, metrics: list[Metric], **settings: object) -> Iterator[Target]:
    bench = make_bench(database)
    bench.collector.push_metrics(metrics, "test")
    bench.database.close()
    given = {"database": database, "require_keys": "false", "log_level": "error"} | settings
    with listening() as listener:
        given["listen_fd"] = listener.fileno()
        environment = {f"RAPPOR_{name.upper()}": str(value) for name, value in given.items()}
        process = subprocess.Popen(
            [sys.executable, "-m", "rappor_cli", "serve"],
            env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
        port = port_of(listener)
        sockets: list[Socket] = []
        try:
            await_ready(port)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                yield Target(port, psutil.Process(process.pid), http, sockets)
        finally:
            for one in sockets:
                one.close()
            process.terminate()
            process.wait(30)


def request(body: bytes, *headers: str, content_type: str = "application/json") -> bytes:
    lines = [
        "POST /v1/reports HTTP/1.1",
        "Host: x",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
